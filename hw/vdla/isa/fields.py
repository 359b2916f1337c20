"""The table of instruction fields: the one place where bits get their meaning.

The encoder, the decoders, the listing, the manual and the gateware's layouts read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from vdla.config import Config

__all__ = [
    "FORMATS",
    "RQ_PACK",
    "AluOp",
    "BitField",
    "Field",
    "MemoryType",
    "Opcode",
    "layout",
    "uop_layout",
]


class Opcode(IntEnum):
    """Bits 0..2 of an instruction. 5, 6 and 7 are illegal."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class MemoryType(IntEnum):
    """Which scratchpad a LOAD or STORE moves. 6 and 7 are illegal."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


class AluOp(IntEnum):
    """Vector operations; other codes are illegal. `doc` is the result, for the manual.

    The encoder, the listing, the assembler and fetch take an operation from here, its time from
    `vdla.timing.SLOW_OPERATIONS`. What it computes stands once in each part that computes it:
    `vdla.sim.functional.alu`, `vdla.sim.cycle.kernels`, `vdla.gateware.datapath` (or ``slow``) and
    `vdla.compiler.targets.vdla.intrinsics`.
    """

    doc: str

    def __new__(cls, code: int, doc: str = "") -> AluOp:
        """Make a member that is its code and carries its text."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.doc = doc
        return member

    MIN = 0, "the smaller, signed"
    MAX = 1, "the greater, signed"
    ADD = 2, "sum, wraps at 32 bits"
    SHR = 3, "floor(a / 2^b); a negative b shifts left and wraps"
    MUL = 4, "product, wraps at 32 bits"
    RQ = 5, "bias, requantization, zero point, clip"


@dataclass(frozen=True)
class Field:
    """One field as the table states it.

    Parameters
    ----------
    name : str
        Also the name of the attribute of the instruction class.
    width : int or str
        Bits, or the `Config` property that gives them (``+1`` may follow).
    doc : str
        Meaning, for the manual.
    at : int or None
        Lowest bit; by default the field follows the one before it.
    signed : bool
        Two's complement.
    """

    name: str
    width: int | str
    doc: str
    at: int | None = None
    signed: bool = False


@dataclass(frozen=True)
class BitField:
    """A field placed for one configuration: bits ``lsb .. lsb + width - 1``."""

    name: str
    lsb: int
    width: int
    signed: bool
    doc: str

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value."""
        if self.signed:
            return -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        return 0, (1 << self.width) - 1


_HEAD = (
    Field("opcode", 3, "operation"),
    Field("pop_prev", 1, "wait for a token from the module before"),
    Field("pop_next", 1, "wait for a token from the module behind"),
    Field("push_prev", 1, "give a token to the module before"),
    Field("push_next", 1, "give a token to the module behind"),
)

_MEMORY = (
    *_HEAD,
    Field("memory_type", 3, "scratchpad"),
    Field("sram_base", 16, "first scratchpad entry", at=10),
)

_SIZES = (
    Field("y_size", 16, "rows", at=64),
    Field("x_size", 16, "elements a row"),
    Field("x_stride", 16, "elements from a row to the next, in memory"),
)

_LOOPS = (
    Field("uop_begin", "uop_index_bits", "first micro-op"),
    Field("uop_end", "uop_index_bits+1", "one past the last micro-op"),
    Field("iter_out", 14, "iterations of the outer loop"),
    Field("iter_in", 14, "iterations of the inner loop"),
)

_FACTORS = (
    Field("dst_factor_out", "dst_index_bits", "added to dst an outer iteration", at=64),
    Field("dst_factor_in", "dst_index_bits", "added to dst an inner iteration"),
    Field("src_factor_out", "src_index_bits", "added to src an outer iteration"),
    Field("src_factor_in", "src_index_bits", "added to src an inner iteration"),
)

FORMATS: dict[Opcode, tuple[Field, ...]] = {
    Opcode.LOAD: (
        *_MEMORY,
        Field("dram_base", 30, "first element in memory, counted in elements of the type", at=26),
        Field("pad_value", 8, "fills padding, sign-extended into each scalar", signed=True),
        *_SIZES,
        Field("y_pad_0", 4, "rows of padding above"),
        Field("y_pad_1", 4, "rows of padding below"),
        Field("x_pad_0", 4, "elements of padding left of each row"),
        Field("x_pad_1", 4, "elements of padding right of each row"),
    ),
    Opcode.STORE: (
        *_MEMORY,
        Field("dram_base", 30, "first element in memory, counted in elements of OUT", at=26),
        *_SIZES,
    ),
    Opcode.GEMM: (
        *_HEAD,
        Field("reset", 1, "write zero to ACC and OUT; read neither INP nor WGT"),
        *_LOOPS,
        Field("overwrite", 1, "acc[dst] = product, instead of acc[dst] += product", at=63),
        *_FACTORS,
        Field("wgt_factor_out", "wgt_index_bits", "added to wgt an outer iteration"),
        Field("wgt_factor_in", "wgt_index_bits", "added to wgt an inner iteration"),
    ),
    Opcode.ALU: (
        *_HEAD,
        Field("reset", 1, "reserved, zero"),
        *_LOOPS,
        *_FACTORS,
        Field("alu_opcode", 3, "vector operation"),
        Field("use_imm", 1, "second operand is imm instead of acc[src]"),
        Field(
            "imm",
            16,
            "immediate; for RQ the clip range, low byte least, high byte greatest",
            signed=True,
        ),
    ),
    Opcode.FINISH: _HEAD,
}
"""Fields of each instruction in the order of their bits."""

_UOP = (
    Field("dst", "dst_index_bits", "ACC entry written"),
    Field("src", "src_index_bits", "INP entry (GEMM), ACC entry (ALU)"),
    Field("wgt", "wgt_index_bits", "WGT entry (GEMM)"),
)

RQ_PACK = (
    BitField("shift", 0, 5, False, "right shift after the multiplication, 0..31"),
    BitField("zero_point", 8, 8, True, "added after the shift"),
    BitField(
        "single",
        16,
        1,
        False,
        "1: one rounding, 0: rounding doubling high multiply, then "
        "rounding shift, half away from zero",
    ),
)
"""Each lane of acc[src + 2] of an RQ; bits not named are ignored."""


def _width(width: int | str, config: Config) -> int:
    if isinstance(width, int):
        return width
    name, _, carry = width.partition("+")
    return int(getattr(config, name)) + int(carry or 0)


def _place(table: tuple[Field, ...], config: Config) -> tuple[BitField, ...]:
    placed, lsb = [], 0
    for item in table:
        lsb = lsb if item.at is None else item.at
        width = _width(item.width, config)
        placed.append(BitField(item.name, lsb, width, item.signed, item.doc))
        lsb += width
    return tuple(placed)


@lru_cache(maxsize=256)
def layout(opcode: Opcode, config: Config) -> tuple[BitField, ...]:
    """Return the fields of one instruction, placed in its 128 bits for a configuration."""
    return _place(FORMATS[opcode], config)


@lru_cache(maxsize=64)
def uop_layout(config: Config) -> tuple[BitField, ...]:
    """Return the fields of a micro-op, placed in its 32 bits for a configuration."""
    return _place(_UOP, config)
