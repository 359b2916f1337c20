"""The slow lane against the numpy definitions: every pair of corner cases, then random ones."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import cocotb
import numpy as np

from tests.hw.cocotb.inside.tb import TB
from vdla.gateware.slow import SlowOp
from vdla.isa import RQ_PACK
from vdla.sim.functional.alu import shift_right
from vdla.sim.functional.requantize import requantize
from vdla.timing import TIMING

MIN, MAX = -(1 << 31), (1 << 31) - 1
CORNERS = (MIN, MIN + 1, -(1 << 16), -2, -1, 0, 1, 2, 3, 0x5555_5555, 1 << 30, MAX - 1, MAX)
INPUTS = ("operation", "value", "operand", "bias", "multiplier", "packed", "low", "high")


async def _hold(tb: TB, cases: list[tuple[dict[str, int], int]]) -> None:
    """One case a cycle; the results come `slow_cycles` later, in the same order."""
    tb.set(enable=(1 << TIMING.slow_cycles) - 1)
    for cycle in range(len(cases) + TIMING.slow_cycles):
        if cycle < len(cases):
            tb.set(**(dict.fromkeys(INPUTS, 0) | cases[cycle][0]))
        if cycle >= TIMING.slow_cycles:
            inputs, want = cases[cycle - TIMING.slow_cycles]
            found = int(tb.port("result").value.to_signed())
            assert found == want, f"{inputs}: {found} instead of {want}"
        await tb.low()


def _packed(**fields: int) -> int:
    return sum((fields[b.name] & ((1 << b.width) - 1)) << b.lsb for b in RQ_PACK)


def _int32(*values: int) -> list[np.ndarray]:
    return [np.array([value], np.int64).astype(np.int32) for value in values]


@cocotb.test()
async def multiply(dut: Any) -> None:
    tb = TB(dut, "lane")
    await tb.start()
    cases = []
    for a, b in product(CORNERS, CORNERS):
        x, y = _int32(a, b)
        want = int((x * y)[0])
        cases.append(({"operation": SlowOp.MUL, "value": a, "operand": b}, want))
    await _hold(tb, cases)


@cocotb.test()
async def shift(dut: Any) -> None:
    tb = TB(dut, "lane")
    await tb.start()
    cases = []
    for a, amount in product(CORNERS, (*range(-34, 35), MIN, MAX, -1000, 1000)):
        want = int(shift_right(*_int32(a, amount))[0])
        cases.append(({"operation": SlowOp.SHR, "value": a, "operand": amount}, want))
    await _hold(tb, cases)


@cocotb.test()
async def requantization(dut: Any) -> None:
    tb, rng = TB(dut, "lane"), Random(8)
    await tb.start()
    draws = [
        (a, 0, m, s, single)
        for a, m, s, single in product(CORNERS, CORNERS, (0, 1, 2, 30, 31), (False, True))
    ]
    for _ in range(1500):
        size = rng.choice([8, 16, 24, 32])
        draws.append(
            (
                rng.randrange(-(1 << size - 1), 1 << size - 1),
                rng.choice([0, rng.randint(-(1 << 20), 1 << 20), rng.choice(CORNERS)]),
                rng.choice([rng.randint(1 << 30, MAX), rng.randint(MIN, MAX)]),
                rng.randrange(32),
                rng.random() < 0.5,
            )
        )
    cases = []
    for a, bias, m, s, single in draws:
        zero = rng.randint(-128, 127)
        low, high = rng.choice([(-128, 127), (127, -128), (0, 6), (-7, -7), (1, 0)])
        packed = _packed(shift=s, zero_point=zero, single=int(single))
        imm = (high << 8) + (low & 0xFF)
        want = requantize(*_int32(a, bias, m, packed), imm)
        inputs = {
            "operation": SlowOp.RQ,
            "value": a,
            "bias": bias,
            "multiplier": m,
            "packed": packed,
            "low": low,
            "high": high,
        }
        cases.append((inputs, int(want[0])))
    await _hold(tb, cases)
