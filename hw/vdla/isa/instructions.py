"""Instructions as Python values; attribute names are those of the field table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

from .fields import AluOp, MemoryType, Opcode

__all__ = ["Alu", "Finish", "Gemm", "Instruction", "Load", "ModuleName", "Store", "module_of"]


class ModuleName(Enum):
    """The three modules that execute instructions."""

    LOAD = "load"
    COMPUTE = "compute"
    STORE = "store"


@dataclass(frozen=True, kw_only=True)
class _Tokens:
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


@dataclass(frozen=True, kw_only=True)
class Load(_Tokens):
    """Copy a padded two-dimensional block from memory into a scratchpad.

    ``y_size`` rows of ``x_size`` elements, ``x_stride`` elements apart in memory, fill the
    scratchpad from ``sram_base`` on without gaps, padding included. A ``y_size`` of 0 writes
    only padding, ``y_pad_0 + y_pad_1`` rows of it; an ``x_size`` of 0 writes nothing.
    """

    opcode: ClassVar[Opcode] = Opcode.LOAD
    memory_type: MemoryType
    sram_base: int
    dram_base: int
    y_size: int = 1
    x_size: int
    x_stride: int = 0
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0
    pad_value: int = 0

    @property
    def sram_size(self) -> int:
        """Scratchpad entries written: 0 where ``x_size`` is 0."""
        if self.x_size == 0:
            return 0
        rows = self.y_pad_0 + self.y_size + self.y_pad_1
        return rows * (self.x_pad_0 + self.x_size + self.x_pad_1)


@dataclass(frozen=True, kw_only=True)
class Store(_Tokens):
    """Copy consecutive OUT entries to a two-dimensional block in memory."""

    opcode: ClassVar[Opcode] = Opcode.STORE
    memory_type: MemoryType = MemoryType.OUT
    sram_base: int
    dram_base: int
    y_size: int = 1
    x_size: int
    x_stride: int = 0


@dataclass(frozen=True, kw_only=True)
class _Loops(_Tokens):
    uop_begin: int
    uop_end: int
    iter_out: int = 1
    iter_in: int = 1
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0

    @property
    def count(self) -> int:
        """Micro-ops executed."""
        return self.iter_out * self.iter_in * max(0, self.uop_end - self.uop_begin)


@dataclass(frozen=True, kw_only=True)
class Gemm(_Loops):
    """Multiply INP blocks by WGT blocks into ACC, a micro-op a cycle."""

    opcode: ClassVar[Opcode] = Opcode.GEMM
    wgt_factor_out: int = 0
    wgt_factor_in: int = 0
    reset: bool = False
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True)
class Alu(_Loops):
    """Apply a vector operation to ACC entries: ``acc[dst] = acc[dst] op (acc[src] or imm)``."""

    opcode: ClassVar[Opcode] = Opcode.ALU
    alu_opcode: AluOp
    use_imm: bool = False
    imm: int = 0
    reset: bool = False


@dataclass(frozen=True, kw_only=True)
class Finish(_Tokens):
    """End the program: compute sets the done bit."""

    opcode: ClassVar[Opcode] = Opcode.FINISH


Instruction: TypeAlias = Load | Store | Gemm | Alu | Finish


def module_of(instruction: Instruction) -> ModuleName:
    """Return the module that executes an instruction.

    STORE goes to store, LOAD of INP and WGT to load, everything else to compute.
    """
    if isinstance(instruction, Store):
        return ModuleName.STORE
    if isinstance(instruction, Load) and instruction.memory_type in (
        MemoryType.INP,
        MemoryType.WGT,
    ):
        return ModuleName.LOAD
    return ModuleName.COMPUTE
