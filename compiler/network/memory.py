"""The memory plan: one arena, buffers whose lives do not overlap in the same place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vdla.module import Launch, Pack, Relayout, Step, Unpack

from .layout import Layout

__all__ = ["PAGE_BYTES", "Life", "aligned", "lives", "place", "place_buffers"]

PAGE_BYTES = 4096
"""Every tensor starts on a page: no first burst is cut short, and every element is aligned."""


@dataclass(frozen=True)
class Life:
    """Moments of a buffer's first write and of its last use, both included."""

    first: int
    last: int

    def meets(self, other: Life) -> bool:
        """Whether two buffers hold values at the same time."""
        return self.first <= other.last and other.first <= self.last


def aligned(nbytes: int) -> int:
    """Return `nbytes` rounded up to whole pages."""
    return -(-nbytes // PAGE_BYTES) * PAGE_BYTES


def lives(layout: Layout) -> list[Life]:
    """Return the life of each buffer, in moments: one a step, one a layer inside a program.

    A buffer with parts lives as long as any of them.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for moment, (reads, writes) in enumerate(
        touched for step in layout.steps for touched in _touched(step)
    ):
        for buffer in map(layout.root, (*reads, *writes)):
            first.setdefault(buffer, moment)
            last[buffer] = moment
    roots = map(layout.root, range(len(layout.buffers)))
    return [Life(first[b], last[b]) for b in roots]


def place_buffers(layout: Layout, start: int, *, shared: bool = True) -> tuple[list[int], int]:
    """Return the offset of each buffer, and the end of the memory they need.

    The largest buffer is placed first, each at the lowest page where it meets no other in time and
    in space. Parts lie where they do in their whole.

    Parameters
    ----------
    layout : Layout
    start : int
        First byte that may be used, at a page.
    shared : bool
        Whether buffers that never hold values at the same time may share a place.
    """
    sizes = [aligned(prod(shape)) for _, shape in layout.buffers]
    whole = [b for b in range(len(sizes)) if b not in layout.inside]
    spans = lives(layout)
    at, end = place([sizes[b] for b in whole], [spans[b] for b in whole], start, shared=shared)
    offsets = [-1] * len(sizes)
    for buffer, offset in zip(whole, at, strict=True):
        offsets[buffer] = offset
    for part in layout.inside:
        offsets[part], outer = 0, part
        while outer in layout.inside:
            outer, first = layout.inside[outer]
            offsets[part] += first
        offsets[part] += offsets[outer]
    return offsets, end


def place(
    sizes: Sequence[int], spans: Sequence[Life], start: int = 0, *, shared: bool = True
) -> tuple[list[int], int]:
    """Return the offset of each of some buffers, and the end of the memory they need.

    The largest is placed first, each at the lowest offset where it meets no other in time and in
    space.

    Parameters
    ----------
    sizes : sequence of int
        Multiples of what the offsets are to be multiples of.
    spans : sequence of Life
    start : int
        First byte that may be used.
    shared : bool
        Whether buffers that never hold values at the same time may share a place.
    """
    offsets = [-1] * len(sizes)
    placed: list[int] = []
    for buffer in sorted(range(len(sizes)), key=lambda b: (-sizes[b], spans[b].first, b)):
        taken = sorted(
            (offsets[b], offsets[b] + sizes[b])
            for b in placed
            if not shared or spans[b].meets(spans[buffer])
        )
        at = start
        for begin, end in taken:
            if at + sizes[buffer] <= begin:
                break
            at = max(at, end)
        offsets[buffer] = at
        placed.append(buffer)
    return offsets, max((offsets[b] + sizes[b] for b in placed), default=start)


def _touched(step: Step) -> Sequence[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return what a step reads and writes, moment by moment."""
    if isinstance(step, Launch):
        return [(layer.reads, (layer.writes,)) for layer in step.layers]
    if isinstance(step, Pack):
        return [((), (step.buffer,))]
    if isinstance(step, Unpack):
        return [((step.buffer,), ())]
    if isinstance(step, Relayout):
        return [((step.source,), (step.target,))]
    return [((), ())]
