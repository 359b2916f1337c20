"""Where each module's cycles went: exclusive causes that sum to the total."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .jit import compiled

__all__ = ["Cause", "attribute"]


class Cause(IntEnum):
    """What a module does in a cycle; the first that applies.

    ============ =================================================================
    ``busy``     writes an element or a beat; compute: an issue slot
    ``memory``   a started transfer waits for the bus, for data or for a response
    ``pop_prev`` the next instruction waits for a token from the module before
    ``pop_next`` the next instruction waits for a token from the module behind
    ``push``     the oldest instruction is ready, and a queue it pushes to is full
    ``pipeline`` start-up, drain, or an operand still in the slow stages
    ``command``  nothing in the command queue, and more to be fetched
    ``idle``     nothing in the command queue, and nothing left to fetch
    ============ =================================================================
    """

    BUSY = 0
    MEMORY = 1
    POP_PREV = 2
    POP_NEXT = 3
    PUSH = 4
    PIPELINE = 5
    COMMAND = 6
    IDLE = 7


_BUSY, _MEMORY, _POP_PREV, _POP_NEXT, _PUSH, _PIPELINE, _COMMAND, _IDLE = range(8)
_STORE_MODULE = 2
_ISSUE_KIND, _FINISH_KIND = 1, 3


@compiled
def _add(out: Any, ends: Any, at: Any, cause: int, until: int) -> None:
    """Give cycles from ``at[0]`` up to `until` to a cause, split at the ends of windows."""
    while at[0] < until:
        while at[1] < len(ends) - 1 and at[0] >= ends[at[1]]:
            at[1] += 1
        stop = min(until, ends[at[1]])
        if stop <= at[0]:
            return
        out[at[1], cause] += stop - at[0]
        at[0] = stop


@compiled
def _split(
    out: Any, ends: Any, at: Any, cause: int, until: int, stall_begin: int, stall_end: int
) -> None:
    """Like `_add`, but the cycles between `stall_begin` and `stall_end` are a push that waits."""
    _add(out, ends, at, cause, min(until, stall_begin))
    _add(out, ends, at, _PUSH, min(until, stall_end))
    _add(out, ends, at, cause, until)


@compiled
def _module(
    out: Any,
    ends: Any,
    at: Any,
    m: int,
    order: Any,
    kind: Any,
    log: Any,
    queue_cycles: int,
    fetched: int,
) -> None:
    latent = _MEMORY if m == _STORE_MODULE else _PIPELINE
    ready = finish = -1  # of the instruction before
    for i in order:
        visible = log.dispatch[i] + queue_cycles
        _split(out, ends, at, latent, min(visible, finish + 1), ready, finish)
        _add(out, ends, at, _COMMAND, visible)
        _add(out, ends, at, _POP_PREV, log.has_prev[i])
        _add(out, ends, at, _POP_NEXT, log.has_next[i])
        _split(out, ends, at, _PIPELINE, log.start[i], ready, finish)
        _add(out, ends, at, _MEMORY, log.first_write[i])
        _add(out, ends, at, _BUSY, log.first_write[i] + log.busy[i])
        inside = _PIPELINE if kind[i] == _ISSUE_KIND or kind[i] == _FINISH_KIND else _MEMORY
        _add(out, ends, at, inside, log.end_write[i])
        ready, finish = log.ready[i], log.finish[i]
    _split(out, ends, at, latent, finish + 1, ready, finish)
    _add(out, ends, at, _COMMAND, fetched + 1)
    _add(out, ends, at, _IDLE, ends[-1])


def attribute(
    columns: NDArray[np.void],
    log: NDArray[np.void],
    ends: NDArray[np.int64],
    queue_cycles: int,
) -> NDArray[np.int64]:
    """Count the cycles of each cause in each window of each module.

    Parameters
    ----------
    columns, log : ndarray, shape (n,)
        Records of the table and of the engine.
    ends : ndarray of int64, shape (windows,)
        Cycle after the last of each window, ascending; the last is the total.
    queue_cycles : int
        From dispatch to the head of a command queue.

    Returns
    -------
    ndarray of int64, shape (3, windows, len(Cause))
        Sums over causes equal the length of each window.
    """
    module = np.ascontiguousarray(columns["module"])
    kind = np.ascontiguousarray(columns["kind"])
    fetched = int(log["dispatch"][-1])
    out = np.zeros((3, len(ends), len(Cause)), np.int64)
    for m in range(3):
        at = np.zeros(2, np.int64)  # next cycle to attribute, and its window
        _module(out[m], ends, at, m, np.flatnonzero(module == m), kind, log, queue_cycles, fetched)
    return out
