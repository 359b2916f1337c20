"""Running a program: in the order its tokens allow, with an account of what was done."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vdla.errors import EncodingError, ProgramError
from vdla.isa import (
    Alu,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    ModuleName,
    Store,
    TokenQueue,
    decode,
    element_bytes,
    line_of,
    module_of,
)
from vdla.program import Program
from vdla.sim.order import order_of

from .alu import execute_alu
from .gemm import execute_gemm
from .memory import execute_load, execute_store
from .state import State

__all__ = ["Result", "execute", "instructions_of", "run"]


@dataclass
class Result:
    """What a run did; bytes and micro-ops are those of one image.

    Attributes
    ----------
    instructions : dict of ModuleName to int
    gemm_uops, alu_uops : int
        Micro-ops executed, resets among GEMM's.
    dram_read_bytes, dram_written_bytes : dict of MemoryType to int
    leftover : dict of TokenQueue to list of int
        Instructions whose tokens nobody popped.
    state : State
        The scratchpads at the end.
    """

    state: State
    instructions: dict[ModuleName, int] = field(
        default_factory=lambda: dict.fromkeys(ModuleName, 0)
    )
    gemm_uops: int = 0
    alu_uops: int = 0
    dram_read_bytes: dict[MemoryType, int] = field(default_factory=dict)
    dram_written_bytes: dict[MemoryType, int] = field(default_factory=dict)
    leftover: dict[TokenQueue, list[int]] = field(default_factory=dict)


def run(
    program: Program,
    dram: NDArray[np.uint8],
    *,
    base: int = 0,
    cycle_limit: int | None = None,
    allow_leftover: bool = False,
) -> Result:
    """Execute a program, writing to `dram`.

    Parameters
    ----------
    program : Program
        Runs up to its first FINISH; what stands after it is not executed.
    dram : ndarray of uint8, shape (bytes,) or (images, bytes)
        With images, the program runs on each.
    base : int
        Address of element 0 of every memory type, in bytes.
    cycle_limit : int, optional
        Stop once more micro-ops than this would have been executed: each takes at least a
        cycle.
    allow_leftover : bool
        Report tokens that nobody popped in the result instead of raising.

    Raises
    ------
    ProgramError
        The program has no FINISH, is illegal, reaches past a buffer or the memory, deadlocks
        or leaves tokens behind. The message names the instruction.
    """
    instructions = instructions_of(program)
    order = order_of(instructions, program.config)
    result = Result(State.fresh(program.config, dram, base))
    for index in order.sequence:
        instruction = instructions[index]
        try:
            _account(result, instruction, cycle_limit)
            execute(result.state, instruction)
        except ProgramError as error:
            raise ProgramError(
                f"Instruction {index} in {module_of(instruction).value} "
                f"(`{line_of(instruction)}`): {error}"
            ) from None
    order.require_complete(len(instructions))
    if not allow_leftover:
        order.require_balanced(instructions)
    result.leftover = order.leftover
    return result


def instructions_of(program: Program) -> list[Instruction]:
    """Return a program's instructions up to and with its first FINISH.

    Raises
    ------
    ProgramError
        There is no FINISH, or an instruction before it is illegal.
    """
    try:
        return decode(program.instructions[: program.finish + 1], program.config)
    except EncodingError as error:
        raise ProgramError(str(error)) from None


def execute(state: State, instruction: Instruction) -> None:
    """Execute one instruction; FINISH and tokens leave the state as it is."""
    if isinstance(instruction, Load):
        execute_load(state, instruction)
    elif isinstance(instruction, Store):
        execute_store(state, instruction)
    elif isinstance(instruction, Gemm):
        execute_gemm(state, instruction)
    elif isinstance(instruction, Alu):
        execute_alu(state, instruction)


def _account(result: Result, instruction: Instruction, cycle_limit: int | None) -> None:
    result.instructions[module_of(instruction)] += 1
    if isinstance(instruction, (Load, Store)):
        kind = instruction.memory_type
        size = element_bytes(kind, result.state.config)
        moved = instruction.y_size * instruction.x_size * size
        load = isinstance(instruction, Load)
        account = result.dram_read_bytes if load else result.dram_written_bytes
        account[kind] = account.get(kind, 0) + moved
    elif isinstance(instruction, Gemm):
        result.gemm_uops += instruction.count
    elif isinstance(instruction, Alu):
        result.alu_uops += instruction.count
    if cycle_limit is not None and result.gemm_uops + result.alu_uops > cycle_limit:
        raise ProgramError(f"The program must end within {cycle_limit} cycles; it would not.")
