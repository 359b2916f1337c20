"""Programs drafted instruction by instruction, with the memory they start from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Store,
    element_bytes,
    encode_uops,
)
from vdla.program import Program

__all__ = ["Check", "Draft"]

_UNTOUCHED = 0x55
"""What memory holds where results will come."""
_BYTE_BITS, _WORD_BYTES = 8, 4


@dataclass(frozen=True, eq=False)
class Check:
    """A program and the memory that it starts from; address 0 is the first byte.

    Attributes
    ----------
    grade : str
        What part of the machine it is about.
    name : str
    program : Program
    memory : ndarray of uint8, shape (bytes,)
    """

    grade: str
    name: str
    program: Program
    memory: NDArray[np.uint8]


class Draft:
    """Collects instructions and lays out memory.

    Every step waits for the one before, so that a fault shows where it is. Results leave through
    OUT, the one buffer that memory can be written from.

    Parameters
    ----------
    config : Config
    seed : int
        Of `random`.
    """

    def __init__(self, config: Config, seed: int = 0) -> None:
        self.config = config
        self.random = np.random.default_rng(seed)
        self.instructions: list[Instruction] = []
        self._memory = bytearray()
        self._uops = 0

    @property
    def lanes(self) -> int:
        """Scalars of an ACC or OUT entry."""
        return self.config.batch * self.config.block_out

    def place(self, kind: MemoryType, values: NDArray[Any]) -> int:
        """Put an array in memory; return its ``dram_base`` as elements of a type."""
        size = element_bytes(kind, self.config)
        self._memory += bytes(-len(self._memory) % size)
        base = len(self._memory) // size
        self._memory += values.tobytes()
        return base

    def words(self, count: int) -> NDArray[np.int32]:
        """Return random ACC entries, the extremes among them."""
        values = self.random.integers(-(1 << 31), 1 << 31, (count, self.lanes)).astype(np.int32)
        values[:, 0] = self.random.choice(np.array([-(1 << 31), (1 << 31) - 1, 0, -1]), count)
        return values

    def bytes(self, *shape: int) -> NDArray[np.int8]:
        """Return random operands."""
        return self.random.integers(-128, 128, shape).astype(np.int8)

    def add(self, *instructions: Instruction) -> None:
        """Append instructions."""
        self.instructions += instructions

    def flag(self, **tokens: Any) -> None:
        """Set dependence flags of the last instruction."""
        self.instructions[-1] = replace(self.instructions[-1], **tokens)

    def load(self, kind: MemoryType, sram: int, dram: int, x: int, **fields: Any) -> None:
        """Append a LOAD, and have compute wait for one of INP or WGT."""
        self.add(Load(memory_type=kind, sram_base=sram, dram_base=dram, x_size=x, **fields))
        if kind in (MemoryType.INP, MemoryType.WGT):
            self.flag(push_next=True)
            self.add(_nothing(pop_prev=True))

    def uops(self, *entries: tuple[int, int, int]) -> dict[str, Any]:
        """Load micro-ops (dst, src, wgt); return the operands that name them."""
        dst, src, wgt = zip(*entries, strict=True)
        words = encode_uops(dst, src, wgt, self.config)
        begin, self._uops = self._uops, self._uops + len(entries)
        self.load(MemoryType.UOP, begin, self.place(MemoryType.UOP, words), len(entries))
        return {"uop_begin": begin, "uop_end": self._uops}

    def store(self, first: int, count: int) -> None:
        """Store OUT entries that the last instruction made, and wait until they are written."""
        untouched = np.full((count, self.lanes), _UNTOUCHED, np.int8)
        target = self.place(MemoryType.OUT, untouched)
        self.flag(push_next=True)
        self.add(
            Store(sram_base=first, dram_base=target, x_size=count, pop_prev=True, push_prev=True),
            _nothing(pop_next=True),
        )

    def show(self, first: int, count: int) -> None:
        """Store ACC entries, all their bytes, from the lowest; what follows them is overwritten."""
        copy = self.uops((first + count, first, 0))
        loop: dict[str, Any] = {"iter_in": count, "dst_factor_in": 1}
        for byte in range(_WORD_BYTES):
            up = _BYTE_BITS * (byte - _WORD_BYTES + 1)
            self.add(
                Gemm(**copy, **loop, reset=True),
                Alu(alu_opcode=AluOp.ADD, **copy, **loop, src_factor_in=1),
                Alu(alu_opcode=AluOp.SHR, use_imm=True, imm=up, **copy, **loop),
                Alu(alu_opcode=AluOp.SHR, use_imm=True, imm=24, **copy, **loop),
            )
            self.store(first + count, count)

    def check(self, grade: str, name: str) -> Check:
        """Return what was drafted, with FINISH at its end."""
        program = Program.from_instructions([*self.instructions, Finish()], self.config)
        size = -(-max(len(self._memory), 1) // self.config.axi_bytes) * self.config.axi_bytes
        memory = np.zeros(size, np.uint8)
        memory[: len(self._memory)] = np.frombuffer(bytes(self._memory), np.uint8)
        return Check(grade, name, program, memory)


def _nothing(**tokens: bool) -> Alu:
    """Return an instruction that moves tokens alone."""
    return Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=0, **tokens)
