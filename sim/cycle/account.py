"""Where each module's cycles went: exclusive causes that sum to the total."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from .table import Kind

__all__ = ["SPAN", "Cause", "attribute", "spans"]

SPAN = np.dtype([("begin", "i8"), ("end", "i8"), ("cause", "i1")])
"""Consecutive cycles of one module with one cause."""


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


_STORE_MODULE = 2


def _steps(
    log: NDArray[np.void], issued: NDArray[np.bool_], latent: Cause, queue_cycles: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return causes and the cycles up to which they apply, each shape (n + 1, steps).

    Up to a cycle that an earlier step has passed, a step gets nothing. The last row holds what
    follows the last instruction.
    """
    before = np.zeros(len(log) + 1, log.dtype)
    before["finish"] = before["ready"] = -1
    before[1:] = log
    ready, finish = before["ready"], before["finish"]
    after = np.zeros(len(log) + 1, log.dtype)
    after[:-1] = log
    visible = after["dispatch"] + queue_cycles
    visible[-1] = finish[-1] + 1
    start = after["start"]
    inside = np.append(np.where(issued, int(Cause.PIPELINE), int(Cause.MEMORY)), 0)
    retired = np.minimum(visible, finish + 1)
    steps = (
        (latent, np.minimum(retired, ready)),
        (Cause.PUSH, np.minimum(retired, finish)),
        (latent, retired),
        (Cause.COMMAND, visible),
        (Cause.POP_PREV, after["has_prev"]),
        (Cause.POP_NEXT, after["has_next"]),
        (Cause.PIPELINE, np.minimum(start, ready)),
        (Cause.PUSH, np.minimum(start, finish)),
        (Cause.PIPELINE, start),
        (Cause.MEMORY, after["first_write"]),
        (Cause.BUSY, after["first_write"] + after["busy"]),
        (inside, after["end_write"]),
    )
    causes = np.stack([np.broadcast_to(cause, len(after)) for cause, _ in steps], axis=1)
    return causes.astype(np.int64), np.stack([until for _, until in steps], axis=1)


def _count(
    causes: NDArray[np.int64], until: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count cycles by window and cause; step k reaches from where the ones before it end."""
    until = np.clip(np.maximum.accumulate(until), 0, ends[-1])
    cuts = np.union1d(until, ends)
    begins = np.concatenate(([0], cuts[:-1]))
    step = np.searchsorted(until, begins, "right")
    window = np.searchsorted(ends, begins, "right")
    out = np.zeros((len(ends), len(Cause)), np.int64)
    inside = begins < ends[-1]
    np.add.at(out, (window[inside], causes[step[inside]]), (cuts - begins)[inside])
    return out


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
    chains = (_chain(columns, log, m, int(ends[-1]), queue_cycles) for m in range(3))
    return np.stack([_count(causes, until, ends) for causes, until in chains])


def spans(
    columns: NDArray[np.void], log: NDArray[np.void], module: int, total: int, queue_cycles: int
) -> NDArray[np.void]:
    """Return what a module does from cycle 0 to `total`, without a gap.

    The cycles in which a transfer writes come first in its span, then those in which it waits for
    memory: their number is exact, their order within one instruction is not told.

    Parameters
    ----------
    columns, log, queue_cycles
        As for `attribute`.
    module : int
        Index into `vdla.sim.cycle.table.MODULES`.
    total : int

    Returns
    -------
    ndarray of `SPAN`
        Neighbours differ in cause.
    """
    causes, until = _chain(columns, log, module, total, queue_cycles)
    until = np.clip(np.maximum.accumulate(until), 0, total)
    begins = np.concatenate(([0], until[:-1]))
    causes = causes[begins < until]
    begins = begins[begins < until]
    first = np.flatnonzero(np.diff(causes, prepend=-1))
    out = np.zeros(len(first), SPAN)
    out["begin"] = begins[first]
    out["end"] = np.append(begins[first][1:], total)
    out["cause"] = causes[first]
    return out


def _chain(
    columns: NDArray[np.void], log: NDArray[np.void], module: int, total: int, queue_cycles: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a module's causes in order, and the cycles up to which they apply."""
    mine = columns["module"] == module
    latent = Cause.MEMORY if module == _STORE_MODULE else Cause.PIPELINE
    issued = np.isin(columns["kind"], (Kind.ISSUE, Kind.FINISH))
    causes, until = _steps(log[mine], issued[mine], latent, queue_cycles)
    fetched = log["dispatch"][-1] + 1
    tail = ((Cause.COMMAND, fetched), (Cause.IDLE, total))
    return (
        np.append(causes.ravel(), [int(cause) for cause, _ in tail]),
        np.append(until.ravel(), [cycle for _, cycle in tail]),
    )
