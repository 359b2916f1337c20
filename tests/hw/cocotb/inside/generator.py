"""Bursts of every length and offset, page edges among them, taken with and without waits."""

from __future__ import annotations

from random import Random
from typing import Any

import cocotb

from tests.hw.cocotb.inside.tb import TB
from vdla.config import TINY
from vdla.gateware.generator import transfer_layout

BEAT, LONGEST, PAGE = TINY.axi_bytes, TINY.axi_burst_beats, 4096


def bursts(address: int, size: int) -> list[tuple[int, int, int, int]]:
    """Return (address, beats, first byte, bytes) of a row's bursts, beat by beat."""
    found: list[tuple[int, int, int, int]] = []
    begin = address // BEAT * BEAT
    while begin < address + size:
        end = min(begin + LONGEST * BEAT, (begin // PAGE + 1) * PAGE)
        first = max(address, begin)
        last = min(end, address + size)
        found.append((begin, -(-(last - begin) // BEAT), first - begin, last - first))
        begin = end
    return found


def _transfer(address: int, rows: int, size: int, stride: int) -> int:
    fields = {"address": address, "rows": rows, "row_bytes": size, "stride_bytes": stride}
    return int(transfer_layout(TINY).const(fields).as_value().value)


async def _check(tb: TB, rng: Random, address: int, rows: int, size: int, stride: int) -> None:
    tb.set(transfer=_transfer(address, rows, size, stride), start=1, take=0)
    assert tb.get("free")
    await tb.low()
    tb.set(start=0)
    cycles = 1
    for row in range(rows):
        wanted = bursts(address + row * stride, size)
        for k, (begin, beats, first, count) in enumerate(wanted):
            while not tb.get("valid"):
                await tb.low()
                cycles += 1
            if rng.random() < 0.3:
                await tb.low()  # a burst not taken stays
            assert tb.get("valid")
            if row == k == 0:
                assert cycles <= 3
            burst = tb.get("burst")
            assert burst & 0xFFFF_FFFF == begin
            assert burst >> 32 == beats - 1
            assert tb.get("offset") == first
            assert tb.get("bytes") == count
            ends = k == len(wanted) - 1
            assert tb.get("last_in_row") == ends
            assert tb.get("last") == (ends and row == rows - 1)
            tb.set(take=1)
            await tb.low()
            tb.set(take=0)
    assert tb.get("free")


@cocotb.test()
async def every_length_and_offset(dut: Any) -> None:
    tb, rng = TB(dut, "generator"), Random(1)
    await tb.start(start=0, take=0)
    for offset in range(0, BEAT):
        for size in (*range(1, 20), 127, 128, 129, 255):
            await _check(tb, rng, 0x1000 + offset, 1, size, 0)


@cocotb.test()
async def page_edges(dut: Any) -> None:
    tb, rng = TB(dut, "generator"), Random(2)
    await tb.start(start=0, take=0)
    for before in (1, 3, 4, 8, 100, 127, 128, 129):
        for size in (before, before + 1, before + 8, before + 300, 5000):
            await _check(tb, rng, 0x4000 - before, 1, size, 0)


@cocotb.test()
async def rows(dut: Any) -> None:
    tb, rng = TB(dut, "generator"), Random(3)
    await tb.start(start=0, take=0)
    for _ in range(60):
        address, stride = rng.randrange(1 << 20), rng.choice([0, 4, rng.randrange(3000)])
        await _check(tb, rng, address, rng.randint(1, 5), rng.randint(1, 400), stride)
