"""The matrix product against numpy: a new pair of operands each cycle."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np

from tests.hw.cocotb.inside.tb import TB
from vdla.config import TINY
from vdla.gateware.matmul import product_cycles

EXTREMES = np.array([-128, -127, -1, 0, 1, 127], np.int8)


@cocotb.test()
async def every_cycle(dut: Any) -> None:
    tb, rng = TB(dut, "product"), np.random.default_rng(4)
    await tb.start()
    tb.set(enable=(1 << product_cycles(TINY)) - 1)
    inputs, outputs, delay = TINY.block_in, TINY.block_out, product_cycles(TINY)
    pairs = []
    for inp in EXTREMES:  # every accumulator at its limits
        for wgt in EXTREMES:
            pairs.append((np.full(inputs, inp), np.full((outputs, inputs), wgt)))
    for k in range(600):
        draw = (lambda shape: rng.choice(EXTREMES, shape)) if k % 2 else None
        shapes = (inputs,), (outputs, inputs)
        pairs.append(
            tuple(
                draw(shape) if draw else rng.integers(-128, 128, shape).astype(np.int8)
                for shape in shapes
            )
        )
    for cycle in range(len(pairs) + delay):
        if cycle >= delay:
            inp, wgt = pairs[cycle - delay]
            want = wgt.astype(np.int32) @ inp.astype(np.int32)
            sums = tb.get("sums").to_bytes(4 * outputs, "little")
            np.testing.assert_array_equal(np.frombuffer(sums, "<i4"), want)
        if cycle < len(pairs):
            inp, wgt = pairs[cycle]
            tb.set(
                inp=int.from_bytes(inp.tobytes(), "little"),
                wgt=int.from_bytes(wgt.tobytes(), "little"),
            )
        await tb.low()
