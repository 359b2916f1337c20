"""The register manual's tables: ``python -m vdla.registers.manual docs/registers.md``.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; everything else on the page
is written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from vdla import manual
from vdla.manual import bit_range, markdown

from .errors import ErrorCause, ErrorModule
from .table import COUNTERS, Register

__all__ = ["render"]


def render(text: str) -> str:
    """Return the page with its tables generated anew."""
    return manual.render(text, _TABLES)


def _map(chosen: Callable[[Register], bool]) -> str:
    rows = []
    for register in filter(chosen, Register):
        for index, bits in enumerate(register.fields):
            first = (f"0x{register:03x}", f"`{register.name}`") if index == 0 else ("", "")
            name = "" if bits.name == "value" else f"`{bits.name}`"
            rows.append((*first, bit_range(bits), name, bits.access.value, bits.doc))
    return markdown(("offset", "register", "bits", "field", "access", "meaning"), rows)


def _errors() -> str:
    rows = ((cause.value, f"`{cause.name.lower()}`", cause.doc) for cause in ErrorCause)
    return markdown(("code", "cause", "the machine stopped at"), rows)


def _modules() -> str:
    rows = ((module.value, module.name.lower()) for module in ErrorModule)
    return markdown(("code", "module"), rows)


def _stall() -> str:
    rows = ((bit, counter.module, f"`{counter.event}`") for bit, counter in enumerate(COUNTERS))
    return markdown(("bit", "module", "event"), rows)


_TABLES: dict[str, Callable[[], str]] = {
    "map": lambda: _map(lambda register: register < Register.CYCLES),
    "counters": lambda: _map(lambda register: register >= Register.CYCLES),
    "errors": _errors,
    "modules": _modules,
    "stall": _stall,
}


if __name__ == "__main__":
    manual.rewrite(sys.argv[1:], _TABLES)
