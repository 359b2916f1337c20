"""How transfers split into bursts: a row at a time, at pages and at the longest burst."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.timing import INSTRUCTION_BYTES, PAGE_BYTES

from .jit import compiled

__all__ = ["BURST", "split_fetch", "split_transfers"]

BURST = np.dtype(
    [
        (name, np.int64)
        for name in (
            "beats",
            "head",  # cells of its first beat
            "cells",  # cycles in the write stage: beats, or elements narrower than a beat
            "pads",  # elements of padding written before it
        )
    ]
)


@compiled
def _split(c: Any, axi_bytes: int, burst_beats: int, page_bytes: int, count: Any, out: Any) -> None:
    """Count the bursts of each transfer, and write them where `out` has room."""
    total = 0
    for i in range(len(c)):
        before = total
        for row in range(c.rows[i]):
            begin = c.address[i] + row * c.stride_bytes[i]
            end = begin + c.row_bytes[i]
            cursor = begin // axi_bytes * axi_bytes
            pads = c.pad_head[i] if row == 0 else c.pad_row[i]
            while cursor < end:
                page = (page_bytes - cursor % page_bytes) // axi_bytes
                beats = min(burst_beats, page, (end - cursor + axi_bytes - 1) // axi_bytes)
                after = cursor + beats * axi_bytes
                cells = beats
                head = 1
                if c.element_bytes[i] < axi_bytes:
                    inside = max(begin, cursor)
                    cells = (min(end, after) - inside) // c.element_bytes[i]
                    head = (min(end, cursor + axi_bytes) - inside) // c.element_bytes[i]
                if len(out) > 0:
                    out[total].beats = beats
                    out[total].head = head
                    out[total].cells = max(beats, cells)
                    out[total].pads = pads
                pads = 0
                cursor = after
                total += 1
        count[i] = total - before


def split_transfers(
    columns: NDArray[np.void], axi_bytes: int, burst_beats: int
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Split every LOAD and STORE.

    Returns
    -------
    bursts : ndarray of `BURST`, shape (m,)
        In the order of instructions.
    count : ndarray of int64, shape (n,)
        Bursts of each instruction.
    """
    count = np.zeros(len(columns), np.int64)
    _split(columns, axi_bytes, burst_beats, PAGE_BYTES, count, np.empty(0, BURST))
    bursts = np.empty(int(count.sum()), BURST)
    _split(columns, axi_bytes, burst_beats, PAGE_BYTES, count, bursts)
    return bursts, count


def split_fetch(instructions: int, axi_bytes: int, burst_beats: int) -> NDArray[np.void]:
    """Split a stream of instructions, which starts on a page."""
    beats = -(-instructions * INSTRUCTION_BYTES // axi_bytes)
    bursts = np.zeros(-(-beats // burst_beats), BURST)
    bursts["beats"] = burst_beats
    bursts["beats"][-1] = beats - burst_beats * (len(bursts) - 1)
    bursts["cells"] = bursts["beats"]
    return bursts
