"""The manual's generated tables: ``python -m vdla.isa.manual docs/isa.md`` rewrites them.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; everything else on the page
is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vdla.config import PRESETS, PYNQ_Z1, Config

from .fields import FORMATS, RQ_PACK, AluOp, BitField, MemoryType, Opcode, layout, uop_layout
from .memory import element_bytes, sram_depth
from .tokens import FLAGS, TOKEN_FLAGS

__all__ = ["render"]

_TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDTHS = ("uop_index_bits", "dst_index_bits", "src_index_bits", "wgt_index_bits")


def render(text: str) -> str:
    """Return a page with every marked table generated anew.

    Raises
    ------
    KeyError
        A mark names no table.
    """
    return _TABLE.sub(lambda match: f"{match[1]}{_TABLES[match[2]]()}{match[3]}", text)


def _markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def _bits(bits: BitField) -> str:
    last = bits.lsb + bits.width - 1
    return f"{bits.lsb}" if bits.width == 1 else f"{bits.lsb}..{last}"


def _format(opcode: Opcode) -> str:
    named = {field.name: field for field in FORMATS[opcode]}
    rows = []
    for bits in layout(opcode, PYNQ_Z1):
        width = named[bits.name].width
        text = str(width) if isinstance(width, int) else f"`{width}` = {bits.width}"
        meaning = f"{opcode.value}" if bits.name == "opcode" else bits.doc
        rows.append((_bits(bits), f"`{bits.name}`", text, "yes" if bits.signed else "", meaning))
    return _markdown(("bits", "field", "width", "signed", "meaning"), rows)


def _packed(fields: Sequence[BitField]) -> str:
    rows = [(_bits(b), f"`{b.name}`", b.width, "yes" if b.signed else "", b.doc) for b in fields]
    return _markdown(("bits", "field", "width", "signed", "meaning"), rows)


def _widths() -> str:
    def row(config: Config) -> tuple[object, ...]:
        return (f"`{config.name}`", *(getattr(config, name) for name in _WIDTHS))

    header = ("configuration", *(f"`{name}`" for name in _WIDTHS))
    return _markdown(header, (row(config) for config in PRESETS.values()))


def _memory_types() -> str:
    contents = {
        MemoryType.UOP: "one micro-op",
        MemoryType.WGT: "`block_out` × `block_in` int8, row by row",
        MemoryType.INP: "`batch` × `block_in` int8",
        MemoryType.ACC: "`batch` × `block_out` int32",
        MemoryType.OUT: "`batch` × `block_out` int8",
        MemoryType.ACC_8BIT: "`batch` × `block_out` int8 in memory, int32 in ACC",
    }
    rows = (
        (
            kind.value,
            kind.name,
            contents[kind],
            element_bytes(kind, PYNQ_Z1),
            sram_depth(kind, PYNQ_Z1),
        )
        for kind in MemoryType
    )
    return _markdown(("code", "type", "element", "bytes", "entries"), rows)


def _alu_opcodes() -> str:
    meanings = {
        AluOp.MIN: "the smaller, signed",
        AluOp.MAX: "the greater, signed",
        AluOp.ADD: "sum, wraps at 32 bits",
        AluOp.SHR: "floor(a / 2^b); a negative b shifts left and wraps",
        AluOp.MUL: "product, wraps at 32 bits",
        AluOp.RQ: "bias, requantization, zero point, clip",
    }
    rows = ((op.value, op.name, meanings[op]) for op in AluOp)
    return _markdown(("code", "operation", "result"), rows)


def _tokens() -> str:
    rows = (
        (module.value, *(f"`{queues[flag].value}`" if flag in queues else "–" for flag in FLAGS))
        for module, queues in TOKEN_FLAGS.items()
    )
    return _markdown(("module", *(f"`{flag}`" for flag in FLAGS)), rows)


_TABLES: dict[str, Callable[[], str]] = {
    **{opcode.name.lower(): lambda opcode=opcode: _format(opcode) for opcode in Opcode},  # type: ignore[misc]
    "uop": lambda: _packed(uop_layout(PYNQ_Z1)),
    "rq": lambda: _packed(RQ_PACK),
    "widths": _widths,
    "memory-types": _memory_types,
    "alu-opcodes": _alu_opcodes,
    "tokens": _tokens,
}


def _main(paths: Sequence[str]) -> None:
    for name in paths:
        path = Path(name)
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    _main(sys.argv[1:])
