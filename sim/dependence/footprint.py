"""What each instruction reads and writes, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.isa import Alu, AluOp, Gemm, Instruction, Load, MemoryType, Store
from vdla.program import Program
from vdla.sim.functional import State
from vdla.sim.functional.memory import execute_load, require_transfer
from vdla.sim.loops import micro_ops, require_below

from .segments import Segments

__all__ = ["Access", "Footprints", "Touched"]

Touched = slice | NDArray[np.int64]
"""Entries of a scratchpad or segments of memory; an array may name one twice."""

_CHUNK = 1 << 20
_KEPT = 1 << 12
"""Longer instructions are worth no memory: their own work outweighs finding it out again."""
_FLAG_BITS = 0b1111 << 3


class Access(NamedTuple):
    """Places touched; None stands for memory."""

    where: MemoryType | None
    touched: Touched
    write: bool


class Footprints:
    """The accesses of a program's instructions, asked for in an order they can execute in.

    Which entries a micro-op names is known from the micro-ops in memory at the start.
    """

    def __init__(
        self,
        program: Program,
        instructions: Sequence[Instruction],
        dram: NDArray[np.uint8],
        base: int,
    ) -> None:
        self.config = program.config
        self.segments = Segments(instructions, program.config)
        self._words = program.instructions.tolist()
        self._computed: dict[tuple[int, int], list[Access]] = {}
        self._state = State.fresh(program.config, dram[:1] if dram.ndim == 2 else dram, base)

    def of(self, index: int, instruction: Instruction) -> Iterator[Access]:
        """Yield an instruction's accesses, all reads of a step before its writes.

        Raises
        ------
        ProgramError
            An index lies past its buffer, or a transfer outside the memory.
        """
        if isinstance(instruction, Load):
            return self._load(index, instruction)
        if isinstance(instruction, Store):
            return self._store(index, instruction)
        if isinstance(instruction, (Gemm, Alu)):
            return self._known_compute(index, instruction)
        return iter(())

    def _load(self, index: int, load: Load) -> Iterator[Access]:
        if load.sram_size == 0:
            return
        require_transfer(self._state, load)
        kind = load.memory_type
        if kind is MemoryType.UOP:
            execute_load(self._state, load)
            self._computed.clear()
        elif kind is MemoryType.ACC_8BIT:
            kind = MemoryType.ACC
        yield Access(None, self.segments.of(index), write=False)
        yield Access(kind, slice(load.sram_base, load.sram_base + load.sram_size), write=True)

    def _store(self, index: int, store: Store) -> Iterator[Access]:
        count = store.y_size * store.x_size
        if count == 0:
            return
        require_transfer(self._state, store)
        span = slice(store.sram_base, store.sram_base + count)
        yield Access(MemoryType.OUT, span, write=False)
        yield Access(None, self.segments.of(index), write=True)

    def _known_compute(self, index: int, instruction: Gemm | Alu) -> Iterator[Access]:
        """Yield the accesses as they were when the same instruction and micro-ops came before."""
        if instruction.count > _KEPT:
            return self._compute(instruction)
        low, high = self._words[index]
        key = (low & ~_FLAG_BITS, high)
        if key not in self._computed:
            self._computed[key] = list(self._compute(instruction))
        return iter(self._computed[key])

    def _compute(self, instruction: Gemm | Alu) -> Iterator[Access]:
        kernel = slice(instruction.uop_begin, instruction.uop_end)
        for dst, src, wgt in micro_ops(self._state.uop, instruction, self.config, _CHUNK):
            yield Access(MemoryType.UOP, kernel, write=False)
            require_below("ACC", dst, self.config.acc_depth)
            if isinstance(instruction, Alu):
                yield from self._alu_reads(instruction, dst, src)
            elif not instruction.reset:
                require_below("INP", src, self.config.inp_depth)
                require_below("WGT", wgt, self.config.wgt_depth)
                yield Access(MemoryType.INP, src, write=False)
                yield Access(MemoryType.WGT, wgt, write=False)
                if not instruction.overwrite:
                    yield Access(MemoryType.ACC, dst, write=False)
            yield Access(MemoryType.ACC, dst, write=True)
            yield Access(MemoryType.OUT, dst, write=True)

    def _alu_reads(
        self, alu: Alu, dst: NDArray[np.int64], src: NDArray[np.int64]
    ) -> Iterator[Access]:
        operands = 3 if alu.alu_opcode is AluOp.RQ else 0 if alu.use_imm else 1
        for offset in range(operands):
            require_below("ACC", src + offset, self.config.acc_depth)
            yield Access(MemoryType.ACC, src + offset, write=False)
        yield Access(MemoryType.ACC, dst, write=False)
