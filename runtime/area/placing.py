"""Which boards a configuration fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vdla.boards import BOARDS
from vdla.config import Config
from vdla.runtime.synthesis.parts import PARTS, Resources

from .estimate import area

__all__ = ["Room", "boards_for"]


@dataclass(frozen=True, kw_only=True)
class Room:
    """A configuration on a board.

    Attributes
    ----------
    board, part : str
    used, has : Resources
        By the accelerator alone; what joins it to the processor takes some more.
    """

    board: str
    part: str
    used: Resources
    has: Resources

    @property
    def shares(self) -> dict[str, float]:
        """What is used of each resource, as a part of what there is."""
        used, has = self.used.to_dict(), self.has.to_dict()
        return {name: used[name] / has[name] for name in used}

    @property
    def fits(self) -> bool:
        """Whether there is enough of everything."""
        return max(self.shares.values()) <= 1

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {"board": self.board, "part": self.part, "fits": self.fits, "shares": self.shares}


def boards_for(config: Config) -> list[Room]:
    """Return a configuration on every board, whether it fits or not."""
    rooms = []
    for board in BOARDS.values():
        part = PARTS[board.config]
        used = area(config, part.family).total
        rooms.append(Room(board=board.name, part=part.name, used=used, has=part.has))
    return rooms
