"""Queues against a list and a count."""

from __future__ import annotations

from random import Random
from typing import Any

import cocotb

from tests.hw.cocotb.inside.tb import TB
from tests.hw.cocotb.units import QUEUE_BITS, QUEUE_DEPTH


async def _queue(dut: Any, writes: float, takes: float, early: bool) -> None:
    """Random traffic; entries start when they are taken, or the head `early`, before it is."""
    tb, rng = TB(dut, "queue"), Random(f"{writes}{takes}{early}")
    await tb.start(write=0, take=0, started=0)
    inside: list[int] = []
    started = False  # the head, before it is taken
    used, full, quiet = 0, False, 0
    for _ in range(3000):
        valid, room = tb.get("valid"), tb.get("room")
        assert room == (used < QUEUE_DEPTH)
        if valid:
            assert inside
            assert tb.get("head") == inside[0]
        # An entry alone in the queue shows in the second cycle after its write.
        quiet = quiet + 1 if inside and not valid else 0
        assert quiet <= 2
        full |= not room
        write = bool(room) and rng.random() < writes
        take = bool(valid) and rng.random() < takes and (started or not early)
        start = take and not early or early and bool(valid) and not started and rng.random() < 0.5
        value = rng.getrandbits(QUEUE_BITS)
        tb.set(write=write, write_data=value, take=take, started=start)
        await tb.low()
        if take:
            inside.pop(0)
            started = False
        elif start:
            started = True
        if write:
            inside.append(value)
        used += write - start
    assert full == (writes > takes / 2)


@cocotb.test()
async def mostly_empty(dut: Any) -> None:
    await _queue(dut, 0.05, 0.9, False)


@cocotb.test()
async def mostly_full(dut: Any) -> None:
    await _queue(dut, 0.9, 0.3, False)


@cocotb.test()
async def a_started_head_outlives_its_place(dut: Any) -> None:
    """The bug that the proof of the command queue found."""
    await _queue(dut, 0.9, 0.2, True)


@cocotb.test()
async def tokens(dut: Any) -> None:
    tb, rng = TB(dut, "tokens"), Random(2)
    await tb.start(push=0, pop=0)
    level, seen = 0, set()
    for step in range(3000):
        assert tb.get("room") == (level < QUEUE_DEPTH)
        assert tb.get("available") == (level > 0)
        seen.add(level)
        bias = 0.8 if step // 100 % 2 else 0.2
        push = level < QUEUE_DEPTH and rng.random() < bias
        pop = level > 0 and rng.random() > bias
        tb.set(push=push, pop=pop)
        await tb.low()
        level += push - pop
    assert seen == set(range(QUEUE_DEPTH + 1))
