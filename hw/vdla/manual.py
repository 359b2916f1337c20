"""Generated tables in pages that are otherwise written by hand.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

__all__ = ["bit_range", "markdown", "render", "rewrite"]

Tables = Mapping[str, Callable[[], str]]

_TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(text: str, tables: Tables) -> str:
    """Return a page with every marked table generated anew.

    Raises
    ------
    KeyError
        A mark names no table.
    """
    return _TABLE.sub(lambda match: f"{match[1]}{tables[match[2]]()}{match[3]}", text)


def rewrite(paths: Sequence[str], tables: Tables) -> None:
    """Bring pages up to date where they lie."""
    for name in paths:
        path = Path(name)
        path.write_text(render(path.read_text(encoding="utf-8"), tables), encoding="utf-8")


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


class _Placed(Protocol):
    @property
    def lsb(self) -> int: ...
    @property
    def width(self) -> int: ...


def bit_range(bits: _Placed) -> str:
    """Return how a manual names a field's bits: ``3`` or ``0..7``."""
    return f"{bits.lsb}" if bits.width == 1 else f"{bits.lsb}..{bits.lsb + bits.width - 1}"
