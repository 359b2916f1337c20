"""What each LOAD of micro-ops writes, taken from memory before the run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.errors import ProgramError

__all__ = ["gather_uops"]


def gather_uops(columns: NDArray[np.void], dram: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the words that LOADs of UOP write, padding included, one after another.

    Columns ``uop_at`` and ``uop_size`` are set to each load's place among them.

    Raises
    ------
    ProgramError
        Micro-ops lie outside memory.
    """
    parts, at = [], 0
    for i in np.flatnonzero(columns["is_uop"]).tolist():
        words = _words(i, columns[i], dram)
        columns["uop_at"][i], columns["uop_size"][i] = at, len(words)
        at += len(words)
        parts.append(words)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _words(index: int, load: np.void, dram: NDArray[np.uint8]) -> NDArray[np.int64]:
    pad = np.int64(int(load["pad_value"]) & 0xFFFFFFFF)
    head, tail = np.full(int(load["pad_head"]), pad), np.full(int(load["pad_tail"]), pad)
    first, rows = int(load["address"]), int(load["rows"])
    if rows == 0:
        return head
    stride, row_bytes = int(load["stride_bytes"]), int(load["row_bytes"])
    end = first + (rows - 1) * stride + row_bytes
    if first < 0 or end > len(dram):
        raise ProgramError(
            f"Instruction {index}: micro-ops must lie within the {len(dram)} bytes of memory, "
            f"not at {first}..{end}."
        )
    at = first + np.arange(rows)[:, np.newaxis] * stride + np.arange(row_bytes)
    data = np.ascontiguousarray(dram[at]).view("<u4").astype(np.int64)
    between = np.full((rows, int(load["pad_row"])), pad)
    body = np.hstack([data, between]).ravel()[: data.size + between.size - between.shape[1]]
    return np.concatenate([head, body, tail])
