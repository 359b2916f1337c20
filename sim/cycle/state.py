"""Everything that changes while the timing engine runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .table import Table

__all__ = [
    "ACTORS",
    "DISPATCH",
    "GENERATE",
    "LOG",
    "NEVER",
    "RING",
    "State",
    "new_state",
]

NEVER = 1 << 60
"""A cycle that no program reaches: what has not happened yet."""

GENERATE, DISPATCH, ACTORS = 0, 5, 12
"""Places in `State.wake` that hold something at the start bit, and their number."""
UNWRITTEN = 0xA5A5A5A5
"""A micro-op that no load has written, as in the functional model."""
RING = 64
"""Entries of a ring: at least axi_outstanding, fetch's slots and slow_cycles."""

LOG = np.dtype(
    [
        (name, np.int64)
        for name in (
            "dispatch",  # enters its command queue
            "has_prev",  # the cycle from which the token it pops from prev is there
            "has_next",  # and the one from next
            "start",
            "first_write",  # first and one past the last cycle of its data or issue slots
            "end_write",
            "busy",  # cycles of those in which something is written or issued
            "ready",  # to retire
            "finish",
            "parameter_reads",
        )
    ]
)
_MODULE = np.dtype([(n, np.int64) for n in ("offset", "count", "dispatched", "started", "retired")])
_QUEUE = np.dtype([(n, np.int64) for n in ("pushes", "pops")])
_PORT = np.dtype(
    [
        (name, np.int64)
        for name in (
            # generator
            "instruction", "burst", "end_burst", "next_burst", "free_at", "bursts",
            # its request
            "request", "requested", "request_of",
            # write stage
            "write_head", "write_tail", "write_free", "accepted",
        )
    ]
)  # fmt: skip
_ONE = np.dtype(
    [
        (name, np.int64)
        for name in (
            "bus_free", "granted", "accepted",
            # what each channel has spent, and when the last beat was written
            "read_spent", "write_spent", "written",
            "fetch_base", "fetch_next", "fetch_cycle", "fetch_freed",
            "last_load", "last_issue", "issue_free",
            "slow_count", "slow_until",
        )
    ]
)  # fmt: skip


class State(NamedTuple):
    """Everything that changes.

    Few arrays of records instead of many arrays: numba's compile time grows with their number.
    """

    wake: NDArray[np.int64]
    log: NDArray[np.void]  # `LOG`, one for each instruction
    order: NDArray[np.int64]  # instructions by module
    module: NDArray[np.void]
    queue: NDArray[np.void]
    pushed: NDArray[np.int64]  # (4, n + 1): cycle of each push
    popped: NDArray[np.int64]
    port: NDArray[np.void]  # fetch, load, loader, store
    slot_free: NDArray[np.int64]  # (4, ring): cycle from which a burst's slot is free
    writing: NDArray[np.int64]  # (3, n + 1): started loads in the order they are written
    last_beat: NDArray[np.int64]
    fetch_spent: NDArray[np.int64]  # what the first beat of each burst of instructions spends
    one: NDArray[np.void]
    slow_dst: NDArray[np.int64]  # results still on their way through the slow stages
    slow_issue: NDArray[np.int64]
    uops: NDArray[np.int64]


def new_state(table: Table, p: np.void, uop_depth: int) -> State:
    """Return the state at the start bit."""
    module = table.columns["module"]
    n, bursts = len(module), len(table.bursts)
    wake = np.full(ACTORS, NEVER)
    wake[GENERATE] = p["fetch_start"]
    wake[DISPATCH] = 0

    log = np.zeros(n, LOG)
    for name in ("dispatch", "start", "first_write", "end_write", "ready", "finish"):
        log[name] = NEVER
    modules = np.zeros(3, _MODULE)
    modules["count"] = np.bincount(module, minlength=3)
    modules["offset"] = np.cumsum(modules["count"]) - modules["count"]
    port = np.zeros(4, _PORT)
    port["request"] = NEVER
    port[0]["burst"], port[0]["end_burst"] = table.fetch_base, bursts
    port["next_burst"] = p["fetch_start"]
    one = np.zeros(1, _ONE)
    one["granted"] = 2
    one["fetch_base"] = table.fetch_base
    for name in ("written", "fetch_cycle", "last_load", "last_issue"):
        one[name] = -1
    one["read_spent"] = one["write_spent"] = -p["cost"]
    return State(
        wake=wake,
        log=log,
        order=np.argsort(module, kind="stable"),
        module=modules,
        queue=np.zeros(4, _QUEUE),
        pushed=np.full((4, n + 1), NEVER),
        popped=np.full((4, n + 1), NEVER),
        port=port,
        slot_free=np.full((4, RING), NEVER),
        writing=np.zeros((3, n + 1), np.int64),
        last_beat=np.full(RING, -1),
        fetch_spent=np.full(bursts - table.fetch_base, NEVER),
        one=one,
        slow_dst=np.full(RING, -1),
        slow_issue=np.zeros(RING, np.int64),
        uops=np.full(uop_depth, UNWRITTEN),
    )
