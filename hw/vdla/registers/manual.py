"""The register manual's tables: ``python -m vdla.registers.manual docs/registers.md``.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; everything else on the page
is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .errors import ErrorCause, ErrorModule
from .table import COUNTERS, Bits, Register

__all__ = ["render"]

_TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


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


def _range(bits: Bits) -> str:
    last = bits.lsb + bits.width - 1
    return f"{bits.lsb}" if bits.width == 1 else f"{bits.lsb}..{last}"


def _map(chosen: Callable[[Register], bool]) -> str:
    rows = []
    for register in filter(chosen, Register):
        for index, bits in enumerate(register.fields):
            first = (f"0x{register:03x}", f"`{register.name}`") if index == 0 else ("", "")
            name = "" if bits.name == "value" else f"`{bits.name}`"
            rows.append((*first, _range(bits), name, bits.access.value, bits.doc))
    return _markdown(("offset", "register", "bits", "field", "access", "meaning"), rows)


def _errors() -> str:
    rows = ((cause.value, f"`{cause.name.lower()}`", cause.doc) for cause in ErrorCause)
    return _markdown(("code", "cause", "the machine stopped at"), rows)


def _modules() -> str:
    rows = ((module.value, module.name.lower()) for module in ErrorModule)
    return _markdown(("code", "module"), rows)


def _stall() -> str:
    rows = ((bit, counter.module, f"`{counter.event}`") for bit, counter in enumerate(COUNTERS))
    return _markdown(("bit", "module", "event"), rows)


_TABLES: dict[str, Callable[[], str]] = {
    "map": lambda: _map(lambda register: register < Register.CYCLES),
    "counters": lambda: _map(lambda register: register >= Register.CYCLES),
    "errors": _errors,
    "modules": _modules,
    "stall": _stall,
}


def _main(paths: Sequence[str]) -> None:
    for name in paths:
        path = Path(name)
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    _main(sys.argv[1:])
