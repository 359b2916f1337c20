"""Results: instructions in the order of their start cycles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.program import Program
from vdla.sim.functional import State, instructions_of
from vdla.sim.functional.machine import execute

__all__ = ["execute_all"]


def execute_all(
    program: Program, start: NDArray[np.int64], dram: NDArray[np.uint8], base: int
) -> None:
    """Compute a program's results in `dram`."""
    state = State.fresh(program.config, dram, base)
    instructions = instructions_of(program)
    for index in np.argsort(start, kind="stable").tolist():
        execute(state, instructions[index])
