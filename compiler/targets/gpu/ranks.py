"""How tightly C's operators bind."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["RANK", "UNARY", "ranked"]

RANK: Mapping[str, int] = {
    "and": 1,
    **dict.fromkeys(("<", "<=", "=="), 2),
    **dict.fromkeys(("<<", ">>"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "//", "%"), 5),
}
"""Of the loop IR's operators, as C writes them; a greater one binds more."""
UNARY = 6
"""Of casts and signs."""


def ranked(text: str, own: int, wanted: int) -> str:
    """Return a text that binds as ``own`` in parentheses where more is wanted."""
    return f"({text})" if own < wanted else text
