"""Running a program: timing first, then values in the order that timing found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.errors import ProgramError
from vdla.program import Program

from .diagnose import deadlock_text, limit_text
from .engine import DEADLOCK, LIMIT, simulate
from .result import CycleResult
from .state import NEVER, new_state
from .table import make_table, parameters
from .uops import gather_uops
from .values import execute_all

__all__ = ["run", "time"]


def time(
    program: Program,
    dram: NDArray[np.uint8] | None = None,
    *,
    base: int = 0,
    cycle_limit: int | None = None,
) -> CycleResult:
    """Time a program without computing its results.

    Parameters
    ----------
    program : Program
    dram : ndarray of uint8, shape (bytes,), optional
        Memory; only micro-ops are read, as they stand before the run, and a program that loads
        none needs no memory.
    base : int
        Byte of `dram` that address 0 of the program stands for.
    cycle_limit : int, optional
        Longest run.

    Raises
    ------
    EncodingError
        An instruction is illegal.
    ProgramError
        The program has no FINISH, leaves a buffer, deadlocks or exceeds the limit.
    """
    table = make_table(program, base)
    fill = gather_uops(table.columns, np.zeros(0, np.uint8) if dram is None else dram)
    p = parameters(program.config)
    state = new_state(table, p, program.config.uop_depth)
    limit = NEVER if cycle_limit is None else cycle_limit
    outcome, cycle = simulate(table.columns, table.bursts, state, p, fill, limit)
    if outcome == DEADLOCK:
        raise ProgramError(deadlock_text(program, table, state, cycle))
    if outcome == LIMIT:
        raise ProgramError(limit_text(program, table, state, limit))
    return CycleResult(program, table, state, fill)


def run(
    program: Program,
    dram: NDArray[np.uint8],
    *,
    base: int = 0,
    cycle_limit: int | None = None,
    values: bool = True,
) -> CycleResult:
    """Run a program: exact timing, and its results in memory.

    Parameters
    ----------
    program : Program
        Runs up to its first FINISH.
    dram : ndarray of uint8, shape (bytes,) or (images, bytes)
        Written in place. With images, the program is timed once, with the first one's
        micro-ops, and computes on each.
    base : int
        Address of element 0 of every memory type, in bytes.
    cycle_limit : int, optional
        Longest run.
    values : bool
        Without them this is `time`.

    Raises
    ------
    EncodingError
        An instruction is illegal.
    ProgramError
        The program has no FINISH, leaves a buffer or the memory, deadlocks or exceeds the
        limit.
    """
    image = dram if dram.ndim == 1 else dram[0]
    result = time(program, np.ascontiguousarray(image), base=base, cycle_limit=cycle_limit)
    if values:
        images = dram[np.newaxis] if dram.ndim == 1 else dram
        execute_all(result.table, program.config, result.start, images, result.fill)
    return result
