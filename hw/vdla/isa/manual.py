"""The manual's generated tables: ``python -m vdla.isa.manual docs/isa.md`` rewrites them.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; everything else on the page
is written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from vdla import manual
from vdla.config import PRESETS, PYNQ_Z1, Config
from vdla.manual import bit_range, markdown

from .fields import FORMATS, RQ_PACK, AluOp, BitField, MemoryType, Opcode, layout, uop_layout
from .memory import element_bytes, sram_depth
from .tokens import FLAGS, TOKEN_FLAGS

__all__ = ["render"]

_WIDTHS = ("uop_index_bits", "dst_index_bits", "src_index_bits", "wgt_index_bits")


def render(text: str) -> str:
    """Return the page with its tables generated anew."""
    return manual.render(text, _TABLES)


def _format(opcode: Opcode) -> str:
    named = {field.name: field for field in FORMATS[opcode]}
    rows = []
    for bits in layout(opcode, PYNQ_Z1):
        width = named[bits.name].width
        text = str(width) if isinstance(width, int) else f"`{width}` = {bits.width}"
        meaning = f"{opcode.value}" if bits.name == "opcode" else bits.doc
        rows.append(
            (
                bit_range(bits),
                f"`{bits.name}`",
                text,
                "yes" if bits.signed else "",
                meaning,
            )
        )
    return markdown(("bits", "field", "width", "signed", "meaning"), rows)


def _packed(fields: Sequence[BitField]) -> str:
    rows = [
        (bit_range(b), f"`{b.name}`", b.width, "yes" if b.signed else "", b.doc) for b in fields
    ]
    return markdown(("bits", "field", "width", "signed", "meaning"), rows)


def _widths() -> str:
    def row(config: Config) -> tuple[object, ...]:
        return (f"`{config.name}`", *(getattr(config, name) for name in _WIDTHS))

    header = ("configuration", *(f"`{name}`" for name in _WIDTHS))
    return markdown(header, (row(config) for config in PRESETS.values()))


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
    return markdown(("code", "type", "element", "bytes", "entries"), rows)


def _alu_opcodes() -> str:
    rows = ((op.value, op.name, op.doc) for op in AluOp)
    return markdown(("code", "operation", "result"), rows)


def _tokens() -> str:
    rows = (
        (module.value, *(f"`{queues[flag].value}`" if flag in queues else "–" for flag in FLAGS))
        for module, queues in TOKEN_FLAGS.items()
    )
    return markdown(("module", *(f"`{flag}`" for flag in FLAGS)), rows)


_TABLES: dict[str, Callable[[], str]] = {
    **{opcode.name.lower(): lambda opcode=opcode: _format(opcode) for opcode in Opcode},  # type: ignore[misc]
    "uop": lambda: _packed(uop_layout(PYNQ_Z1)),
    "rq": lambda: _packed(RQ_PACK),
    "widths": _widths,
    "memory-types": _memory_types,
    "alu-opcodes": _alu_opcodes,
    "tokens": _tokens,
}


if __name__ == "__main__":
    manual.rewrite(sys.argv[1:], _TABLES)
