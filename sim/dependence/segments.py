"""Which parts of memory transfers touch, in units that no store splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import Instruction, Load, Store, element_bytes

__all__ = ["Segments"]

_Int = NDArray[np.int64]


class Segments:
    """Memory cut at both ends of every row that is stored.

    A store writes whole segments, so two transfers, one of them a store, overlap exactly where
    they share a segment.

    Attributes
    ----------
    count : int
        Segments.
    """

    def __init__(self, instructions: Sequence[Instruction], config: Config) -> None:
        transfers = [
            (index, i)
            for index, i in enumerate(instructions)
            if isinstance(i, (Load, Store)) and i.x_size and i.y_size
        ]
        rows = {index: _rows(i, config) for index, i in transfers}
        stored = [rows[index] for index, i in transfers if isinstance(i, Store)]
        cuts = np.unique(np.concatenate(stored)) if stored else np.zeros(1, np.int64)
        self.count = max(0, len(cuts) - 1)
        # +1 where a stored row begins, -1 where one ends: positive sums are stored to.
        change = np.zeros(len(cuts), np.int64)
        for ends in stored:
            np.add.at(change, np.searchsorted(cuts, ends[:, 0]), 1)
            np.add.at(change, np.searchsorted(cuts, ends[:, 1]), -1)
        before = np.concatenate([[0], np.cumsum(np.cumsum(change) > 0)])
        self._touched = {index: _touched(cuts, before, rows[index]) for index, _ in transfers}

    def of(self, index: int) -> _Int:
        """Return the segments an instruction touches, shape (n,), without those never stored to."""
        return self._touched.get(index, _NONE)


_NONE = np.empty(0, np.int64)


def _rows(transfer: Load | Store, config: Config) -> _Int:
    """Return first and last + 1 byte of each row from the base on, shape (rows, 2)."""
    size = element_bytes(transfer.memory_type, config)
    rows, length, stride = transfer.y_size, transfer.x_size, transfer.x_stride
    if stride == length:
        rows, length = 1, rows * length
    first = (transfer.dram_base + np.arange(rows, dtype=np.int64) * stride) * size
    return np.stack([first, first + length * size], axis=1)


def _touched(cuts: _Int, before: _Int, rows: _Int) -> _Int:
    low = np.maximum(np.searchsorted(cuts, rows[:, 0], "right") - 1, 0)
    high = np.minimum(np.searchsorted(cuts, rows[:, 1], "left"), len(cuts) - 1)
    hit = before[high] > before[low]
    if not hit.any():
        return _NONE
    ranges = [np.arange(a, b) for a, b in zip(low[hit].tolist(), high[hit].tolist(), strict=True)]
    return np.concatenate(ranges)
