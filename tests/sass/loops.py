"""Loops of a listing of SASS, and what lies in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["innermost", "loops", "opcodes", "widths"]


def opcodes(listing: Sequence[str]) -> Counter[str]:
    """Count instructions by opcode: ``@P0 LDG.E.128 R4, [R2]``, for P0 or not, is ``LDG.E.128``."""
    words = (re.match(r"(?:@!?\w+ +)?([A-Z][\w.]*)", line) for line in listing)
    return Counter(word[1] for word in words if word)


def widths(counted: Mapping[str, int], opcode: str) -> dict[int, int]:
    """Return how many loads or stores there are by their width in bits."""
    found: dict[int, int] = {}
    for full, count in counted.items():
        name, *modifiers = full.split(".")
        if name == opcode:
            width = next((int(one) for one in modifiers if one in ("64", "128")), 32)
            found[width] = found.get(width, 0) + count
    return found


def innermost(listing: Sequence[str]) -> list[Sequence[str]]:
    """Return the loops that hold no other, in order: from a label to a branch back to it."""
    spans = list(_spans(listing))
    return [
        listing[a:b]
        for a, b in spans
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)
    ]


def loops(listing: Sequence[str]) -> list[Sequence[str]]:
    """Return all loops, in the order of their ends."""
    return [listing[a:b] for a, b in _spans(listing)]


def _spans(listing: Sequence[str]) -> Iterator[tuple[int, int]]:
    labels = {line[:-1]: k for k, line in enumerate(listing) if line.endswith(":")}
    for k, line in enumerate(listing):
        to = re.search(r"\bBRA\b.*(\.L_\w+)", line)
        if to and labels[to[1]] < k:
            yield labels[to[1]], k + 1
