"""Hand-assembling test programs: memory laid out, instructions collected, outputs expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vdla.config import Config
from vdla.isa import Finish, Instruction, Load, MemoryType, element_bytes, encode_uops
from vdla.program import Program

__all__ = ["Builder", "Case"]


@dataclass(frozen=True)
class Case:
    """A program, the memory it starts from and what it must leave there.

    Parameters
    ----------
    name : str
    program : Program
    dram : ndarray of uint8, shape (bytes,)
        Copy it before a run: `fresh` does.
    expected : tuple of (int, ndarray)
        Byte addresses and the arrays that must stand there afterwards.
    """

    name: str
    program: Program
    dram: np.ndarray
    expected: tuple[tuple[int, np.ndarray], ...]

    def fresh(self) -> np.ndarray:
        return self.dram.copy()

    def check(self, dram: np.ndarray) -> None:
        """Raise AssertionError where an output is wrong."""
        for address, values in self.expected:
            raw = values.tobytes()
            found = np.frombuffer(dram[address : address + len(raw)].tobytes(), values.dtype)
            np.testing.assert_array_equal(found.reshape(values.shape), values, err_msg=self.name)


class Builder:
    """Collects instructions and lays out memory.

    Parameters
    ----------
    config : Config
    gap : int
        Unused bytes before each array, so that addresses are no rounder than they must be.
    """

    def __init__(self, config: Config, gap: int = 0) -> None:
        self.config = config
        self.instructions: list[Instruction] = []
        self.gap = gap
        self._memory = bytearray()

    def place(self, kind: MemoryType, values: np.ndarray) -> int:
        """Put an array in memory; return its ``dram_base`` as elements of a type."""
        size = element_bytes(kind, self.config)
        self._memory += bytes(self.gap)
        self._memory += bytes(-len(self._memory) % size)
        base = len(self._memory) // size
        self._memory += values.tobytes()
        return base

    def reserve(self, entries: int) -> int:
        """Leave room for OUT elements; return the first's ``dram_base``."""
        lanes = self.config.batch * self.config.block_out
        return self.place(MemoryType.OUT, np.full((entries, lanes), 0x55, np.int8))

    def uops(self, entries: Sequence[tuple[int, int, int]], sram: int = 0, **tokens: bool) -> None:
        """Place micro-ops (dst, src, wgt) in memory and load them."""
        dst, src, wgt = zip(*entries, strict=True)
        words = encode_uops(dst, src, wgt, self.config)
        dram = self.place(MemoryType.UOP, words)
        self.load(MemoryType.UOP, sram, dram, len(entries), **tokens)

    def load(self, kind: MemoryType, sram: int, dram: int, x: int, **fields: Any) -> None:
        """Append a LOAD."""
        self.add(Load(memory_type=kind, sram_base=sram, dram_base=dram, x_size=x, **fields))

    def add(self, instruction: Instruction) -> None:
        """Append any instruction."""
        self.instructions.append(instruction)

    def tokens(self, **flags: bool) -> None:
        """Set dependence flags of the last instruction."""
        self.instructions[-1] = replace(self.instructions[-1], **flags)

    def case(self, name: str, *outputs: tuple[int, np.ndarray]) -> Case:
        """Return the case; outputs are given by the ``dram_base`` of their OUT elements."""
        if not isinstance(self.instructions[-1], Finish):
            self.add(Finish(pop_next=True))
        size = element_bytes(MemoryType.OUT, self.config)
        dram = np.frombuffer(bytes(self._memory), dtype=np.uint8).copy()
        return Case(
            name=f"{name}-{self.config.name}",
            program=Program.from_instructions(self.instructions, self.config),
            dram=dram,
            expected=tuple((base * size, values) for base, values in outputs),
        )
