"""What the gateware's text holds, before any synthesis: cheap to count, and comparable."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

__all__ = ["Contents"]

_MEMORY = re.compile(r"^  memory width (\d+) size (\d+) ", re.MULTILINE)
_REGISTER = re.compile(r"^  cell \$dff \S+\n    parameter \\WIDTH (\d+)$", re.MULTILINE)
_MULTIPLIER = re.compile(r"^  cell \$mul ", re.MULTILINE)
_CELL = re.compile(r"^  cell \$", re.MULTILINE)


@dataclass(frozen=True)
class Contents:
    """Counts of a design's RTLIL, which a report of it keeps.

    A report is out of date where they have moved; names, comments and the order of statements
    move none of them.

    Parameters
    ----------
    memory_bits, register_bits : int
    multipliers, operators : int
        Cells that multiply, and cells of all kinds, memories' ports and registers among them.
    """

    memory_bits: int
    register_bits: int
    multipliers: int
    operators: int

    @classmethod
    def of(cls, rtlil: str) -> Contents:
        """Count the contents of RTLIL as Amaranth writes it."""
        return cls(
            memory_bits=sum(int(width) * int(size) for width, size in _MEMORY.findall(rtlil)),
            register_bits=sum(map(int, _REGISTER.findall(rtlil))),
            multipliers=len(_MULTIPLIER.findall(rtlil)),
            operators=len(_CELL.findall(rtlil)),
        )

    def to_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)
