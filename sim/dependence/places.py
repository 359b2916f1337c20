"""Who wrote and who read each place last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from .footprint import Touched

__all__ = ["Places"]


class Places:
    """The entries of a scratchpad, or the segments of memory.

    One module writes a place and others read it; modules are named by their position in a
    clock. As each module is in order, its last access stands for all before it.

    Parameters
    ----------
    count : int
    writer : int
    readers : iterable of int
    """

    def __init__(self, count: int, writer: int, readers: Iterable[int]) -> None:
        self.writer = writer
        self.written = np.full(count, -1, np.int64)
        self.read = {reader: np.full(count, -1, np.int64) for reader in readers}

    def access(
        self, index: int, module: int, clock: tuple[int, ...], touched: Touched, write: bool
    ) -> Iterator[tuple[int, int]]:
        """Note an access; yield each instruction it clashes with, and one place where.

        An earlier access clashes where it is not among what the clock knows to be done.
        """
        others = self.read if write else {self.writer: self.written}
        for other, last in others.items():
            if other != module:
                yield from _clashes(last[touched], clock[other], touched)
        if write:
            self.written[touched] = index
        else:
            self.read[module][touched] = index

    def unwritten(self, touched: Touched) -> int | None:
        """Return a place among those touched that nothing has written."""
        never = self.written[touched] < 0
        return _place(touched, int(never.argmax())) if never.any() else None


def _clashes(last: NDArray[np.int64], done: int, touched: Touched) -> Iterator[tuple[int, int]]:
    late = last > done
    if late.any():
        where = np.flatnonzero(late)
        instructions, first = np.unique(last[where], return_index=True)
        for instruction, at in zip(instructions.tolist(), where[first].tolist(), strict=True):
            yield instruction, _place(touched, at)


def _place(touched: Touched, at: int) -> int:
    return int(touched.start) + at if isinstance(touched, slice) else int(touched[at])
