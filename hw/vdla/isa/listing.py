"""One readable line per instruction; the operand table that the assembler reads too."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields

from .fields import AluOp, MemoryType
from .instructions import Alu, Finish, Gemm, Instruction, Load, Store
from .tokens import FLAGS

__all__ = ["OPERANDS", "Operand", "clip_range", "line_of", "mnemonic_of"]

_MEMORY_WIDTH = 9
"""Columns of the longest mnemonic in common use, so that operands line up."""


@dataclass(frozen=True)
class Operand:
    """An operand ``key=value`` or ``key=value,value``.

    Parameters
    ----------
    key : str
        As it is written.
    attributes : tuple of str
        Attributes of the instruction class that the values stand for.
    separator : str
        Between values.
    address : bool
        Written in hexadecimal.
    """

    key: str
    attributes: tuple[str, ...]
    separator: str = ","
    address: bool = False


_BLOCK = (
    Operand("sram", ("sram_base",)),
    Operand("dram", ("dram_base",), address=True),
    Operand("y", ("y_size",)),
    Operand("x", ("x_size",)),
    Operand("stride", ("x_stride",)),
)
_LOOPS = (
    Operand("uop", ("uop_begin", "uop_end"), ":"),
    Operand("loop", ("iter_out", "iter_in")),
    Operand("dst", ("dst_factor_out", "dst_factor_in")),
    Operand("src", ("src_factor_out", "src_factor_in")),
)
OPERANDS: dict[type[Instruction], tuple[Operand, ...]] = {
    Load: (
        *_BLOCK,
        Operand("pad", ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")),
        Operand("fill", ("pad_value",)),
    ),
    Store: _BLOCK,
    Gemm: (*_LOOPS, Operand("wgt", ("wgt_factor_out", "wgt_factor_in"))),
    Alu: (*_LOOPS, Operand("imm", ("imm",)), Operand("unused", ("imm",))),
    Finish: (),
}
"""Operands of each instruction; one whose values are all defaults is not written."""


def clip_range(imm: int) -> tuple[int, int]:
    """Return the least and the greatest value that an RQ's immediate encodes.

    Two signed bytes: the least in the low one, the greatest in the high one.
    """
    high, low = divmod(imm & 0xFFFF, 256)
    return low - (low << 1 & 256), high - (high << 1 & 256)


def mnemonic_of(instruction: Instruction) -> str:
    """Return the first word of an instruction's line."""
    if isinstance(instruction, Load):
        kind = instruction.memory_type
        return "load.acc8" if kind is MemoryType.ACC_8BIT else f"load.{kind.name.lower()}"
    if isinstance(instruction, Gemm):
        modes = [mode for mode in ("reset", "overwrite") if getattr(instruction, mode)]
        return ".".join(["gemm", *modes])
    if isinstance(instruction, Alu):
        reserved = [".reset"] if instruction.reset else []
        return "".join([instruction.alu_opcode.name.lower(), *reserved])
    return instruction.opcode.name.lower()


def line_of(instruction: Instruction) -> str:
    """Return an instruction as a line of assembly.

    Operands that have their default are left out; dependence flags follow a semicolon.

    Examples
    --------
    >>> from vdla.isa import Load, MemoryType
    >>> line_of(Load(memory_type=MemoryType.INP, sram_base=0, dram_base=16, y_size=14,
    ...              x_size=14, x_stride=56, x_pad_0=1, pad_value=-3, push_next=True))
    'load.inp  sram=0 dram=0x10 y=14 x=14 stride=56 pad=0,0,1,0 fill=-3 ; push_next'
    """
    words = [f"{mnemonic_of(instruction):{_MEMORY_WIDTH}}"]
    words += [
        _operand(operand, instruction)
        for operand in OPERANDS[type(instruction)]
        if _written(operand, instruction)
    ]
    if isinstance(instruction, Alu) and instruction.alu_opcode is AluOp.RQ:
        words = [word for word in words if not word.startswith(("imm=", "unused="))]
        words.append("clip={},{}".format(*clip_range(instruction.imm)))
        words += ["use_imm"] if instruction.use_imm else []
    flags = [flag for flag in FLAGS if getattr(instruction, flag)]
    return " ".join([*words, *([";"] if flags else []), *flags]).rstrip()


def _written(operand: Operand, instruction: Instruction) -> bool:
    if isinstance(instruction, Alu) and operand.key in ("imm", "unused"):
        used = operand.key == "imm"
        return instruction.use_imm is used and (used or instruction.imm != 0)
    defaults = {f.name: f.default for f in fields(instruction)}
    return any(
        defaults[name] is MISSING or getattr(instruction, name) != defaults[name]
        for name in operand.attributes
    )


def _operand(operand: Operand, instruction: Instruction) -> str:
    values = (getattr(instruction, name) for name in operand.attributes)
    text = operand.separator.join(f"{v:#x}" if operand.address else str(int(v)) for v in values)
    return f"{operand.key}={text}"
