"""The hand-made wiring of a Zynq-7000, with the processing system played by the test."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

from amaranth.hdl import Elaboratable, Module, Signal, Value
from amaranth.sim import Simulator

from vdla.boards import BOARDS
from vdla.config import TINY
from vdla.gateware import zynq
from vdla.registers import IDENTITY, Register

BOARD = BOARDS["pynq-z1"]
START = Register.CONTROL.bits("start").mask
PROGRAM = 0x1000_0000
WORD = {"len": 0, "size": 2, "burst": 1, "valid": 1}  # one beat of four bytes


class Played(Elaboratable):
    """A primitive whose pins are signals of the test's, by their names in lower case."""

    made: dict[str, Played] = {}

    def __init__(self, kind: str, **pins: Any) -> None:
        self.made[kind] = self
        self._pins = {name[2:]: Value.cast(v) for name, v in pins.items() if name[0] in "io"}
        self._inputs = {name[2:] for name in pins if name[0] == "i"}
        for name, value in self._pins.items():
            setattr(self, name.lower(), Signal(len(value), name=name.lower()))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, value in self._pins.items():
            if self is self.made.get("BUFG"):
                continue
            ours = getattr(self, name.lower())
            m.d.comb += ours.eq(value) if name in self._inputs else value.eq(ours)
        return m


async def read(ctx: Any, ps: Any, address: int) -> tuple[int, int]:
    for name, value in {**WORD, "addr": address, "id": 5}.items():
        ctx.set(getattr(ps, f"maxigp0ar{name}"), value)
    await ctx.tick("boot").until(ps.maxigp0arready)
    ctx.set(ps.maxigp0arvalid, 0)
    ctx.set(ps.maxigp0rready, 1)
    pins = (ps.maxigp0rid, ps.maxigp0rdata, ps.maxigp0rresp)
    name, data, answer = await ctx.tick("boot").sample(*pins).until(ps.maxigp0rvalid)
    ctx.set(ps.maxigp0rready, 0)
    assert name == 5
    return int(data), int(answer)


async def write(ctx: Any, ps: Any, address: int, data: int) -> int:
    for name, value in {**WORD, "addr": address, "id": 9}.items():
        ctx.set(getattr(ps, f"maxigp0aw{name}"), value)
    await ctx.tick("boot").until(ps.maxigp0awready)
    ctx.set(ps.maxigp0awvalid, 0)
    for name, value in {"data": data, "strb": 15, "last": 1, "valid": 1}.items():
        ctx.set(getattr(ps, f"maxigp0w{name}"), value)
    await ctx.tick("boot").until(ps.maxigp0wready)
    ctx.set(ps.maxigp0wvalid, 0)
    ctx.set(ps.maxigp0bready, 1)
    pins = (ps.maxigp0bid, ps.maxigp0bresp)
    name, answer = await ctx.tick("boot").sample(*pins).until(ps.maxigp0bvalid)
    ctx.set(ps.maxigp0bready, 0)
    assert name == 9
    return int(answer)


def test_a_run_started_through_the_port_asks_memory_and_interrupts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ID and start over GP0; the first fetch at HP0; what is fetched is refused; an interrupt."""
    monkeypatch.setattr(zynq, "Instance", Played)
    design = zynq.Zynq(TINY, BOARD.address, BOARD.address_bytes)
    seen = {}

    async def bench(ctx: Any) -> None:
        ps, base = Played.made["PS7"], BOARD.address
        await ctx.tick("boot").repeat(8)
        ctx.set(ps.fclkresetn, 1)
        await ctx.tick("boot").repeat(8)
        seen["id"] = await read(ctx, ps, base + Register.ID)
        seen["outside"] = await read(ctx, ps, base + BOARD.address_bytes)
        for register, value in (
            (Register.INSTRUCTION_BASE, PROGRAM),
            (Register.INSTRUCTION_COUNT, 1),
            (Register.CONTROL, START | Register.CONTROL.bits("interrupt_enable").mask),
        ):
            assert await write(ctx, ps, base + register, value) == 0
        ctx.set(ps.saxihp0arready, 1)
        pins = (ps.saxihp0araddr, ps.saxihp0arlen, ps.saxihp0arsize, ps.saxihp0arburst)
        asked = await ctx.tick("boot").sample(*pins).until(ps.saxihp0arvalid)
        seen["fetch"] = tuple(int(value) for value in asked)
        ctx.set(ps.saxihp0rresp, 2)  # SLVERR
        ctx.set(ps.saxihp0rvalid, 1)
        await ctx.tick("boot").repeat(int(asked[1]))
        ctx.set(ps.saxihp0rlast, 1)
        await ctx.tick("boot")
        ctx.set(ps.saxihp0rvalid, 0)
        assert int(ctx.get(ps.irqf2p)) == 0
        await ctx.tick("boot").until(ps.irqf2p != 0)
        seen["interrupt"] = int(ctx.get(ps.irqf2p))
        seen["status"] = await read(ctx, ps, base + Register.STATUS)

    simulator = Simulator(design)
    simulator.add_clock(1e-8, domain="boot")  # the clock buffer is played by the simulator
    simulator.add_testbench(bench)
    simulator.run_until(1e-8 * 400)
    status, answer = seen.pop("status")
    assert answer == 0
    assert Register.STATUS.bits("error").of(status) == 1
    assert Register.STATUS.bits("running").of(status) == 0
    assert seen == {
        "id": (IDENTITY, 0),
        "outside": (0, 3),
        "fetch": (PROGRAM, 1, 3, 1),  # one instruction is two beats of eight bytes
        "interrupt": 1,
    }
