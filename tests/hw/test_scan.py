from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from vdla.gateware.export import to_rtlil
from vdla.gateware.scan import Scanned


class Adder(wiring.Component):
    def __init__(self) -> None:
        super().__init__({"a": In(4), "b": In(3), "total": Out(5)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.total.eq(self.a + self.b)
        return m


def test_values_go_in_and_come_out_through_the_chains() -> None:
    scanned = Scanned(Adder(), "adder")
    taken = []

    async def bench(ctx: Any) -> None:
        for bit in reversed(range(7)):  # b, then a; the first bit ends in the highest place
            ctx.set(scanned.data_in, (5 << 4 | 13) >> bit & 1)
            await ctx.tick()
        ctx.set(scanned.capture, 1)
        await ctx.tick()
        ctx.set(scanned.capture, 0)
        for _ in range(5):
            taken.append(ctx.get(scanned.data_out))
            await ctx.tick()

    simulator = Simulator(scanned)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert taken == [1, 0, 0, 1, 0]  # 13 + 5 = 0b10010


def test_any_number_of_ports_fits_behind_five_pins() -> None:
    text = to_rtlil(Scanned(Adder(), "adder"), "vdla")
    top = text[text.index("module \\vdla\n") :].partition("\nend\n")[0]
    pins = re.findall(r"^  wire width (\d+) (?:in|out)put \d+ +\\(\w+)$", top, re.MULTILINE)
    assert {name: width for width, name in pins} == dict.fromkeys(
        ("clk", "rst", "data_in", "capture", "data_out"), "1"
    )
