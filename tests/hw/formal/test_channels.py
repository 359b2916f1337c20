"""What stands on AXI stays until it is taken, and every burst sends the beats it announced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

from amaranth.hdl import C, Cat, Module, Signal

from tests.hw.formal.harness import Harness, named, run
from vdla.config import TINY
from vdla.gateware.layouts import instruction_layout
from vdla.gateware.reading import ReadArbiter
from vdla.gateware.store import StoreUnit
from vdla.isa import Opcode

pytestmark = pytest.mark.rtl

SMALL = TINY.replace(axi_outstanding=2, axi_burst_beats=4, acc_bytes=256, uop_bytes=64)
"""Few bursts and short ones, so that few cycles show everything."""

SOURCES = 3


def stays(h: Harness, name: str, valid: Signal, ready: Signal, payload: Signal) -> None:
    """Demand that a payload offered and not taken is offered again."""
    before = h.past(Cat(valid & ~ready, payload), name)
    h.require(~before[0] | (valid & (payload == before[1:])))


def arbiter(unit: ReadArbiter) -> Harness:
    """The address channel; readers that keep their requests are served, each in its turn."""
    h = Harness(unit)
    channel = unit.channel
    h.free(channel.request_ready, channel.valid, channel.last)
    stays(h, "address", channel.request_valid, channel.request_ready, channel.request.as_value())
    grants = Cat(source.grant for source in unit.sources)
    last_served = h.register("granted")
    h.require(last_served < SOURCES)
    outstanding, beat = Signal(4), channel.valid & channel.last
    h.m.d.sync += outstanding.eq(outstanding + grants.any() - beat)
    h.given(outstanding < SOURCES + 2, ~channel.valid | (outstanding != 0))
    for k, source in enumerate(unit.sources):
        h.free(source.valid, source.request)
        waiting = h.past(
            Cat(source.valid & ~source.grant, source.request.as_value()), f"reader_{k}"
        )
        h.given(
            ~waiting[0] | (source.valid & (source.request.as_value() == waiting[1:])),
        )
        h.require(~source.grant | source.valid)
        for j, other in enumerate(unit.sources):
            if j != k:
                # While one waits, no other is served twice.
                passed = Signal(name=f"passed_{k}_{j}")
                h.m.d.sync += passed.eq(source.valid & ~source.grant & (passed | other.grant))
                h.require(~(passed & source.valid & other.grant))
                # So, once passed, it comes before the other from the last one served on.
                ahead = [g for g in range(SOURCES) if (k - g - 1) % SOURCES < (j - g - 1) % SOURCES]
                h.require(~passed | Cat(last_served == g for g in ahead).any())
    for k, source in enumerate(unit.sources):
        # What was granted is what stands on the bus.
        won = h.past(Cat(source.grant, source.request.as_value()), f"won_{k}")
        on_bus = Cat(channel.request_valid, channel.request.as_value())
        h.require(~won[0] | (on_bus == Cat(C(1), won[1:])))
    h.require(grants & (grants - 1)[:SOURCES] == 0)
    return h


def store(unit: StoreUnit) -> Harness:
    """STOREs of any shape into a bus that makes any of them wait."""
    h = Harness(unit)
    channel = unit.channel
    h.free(unit.instruction, unit.start, unit.data, unit.take_done)
    h.free(channel.request_ready, channel.ready, channel.response)
    stays(h, "aw", channel.request_valid, channel.request_ready, channel.request.as_value())
    beat = Cat(channel.data, channel.strobe, channel.last)
    stays(h, "w", channel.valid, channel.ready, beat)
    # The memory answers bursts whose address and data it has.
    addresses, ends, answers = (Signal(8, name=n) for n in ("addresses", "ends", "answers"))
    address, data_ = channel.request_valid & channel.request_ready, channel.valid & channel.ready
    started, retired = Signal(8), Signal(8)
    h.m.d.sync += [
        addresses.eq(addresses + address),
        ends.eq(ends + (data_ & channel.last)),
        answers.eq(answers + channel.response),
        started.eq(started + unit.start),
        retired.eq(retired + unit.take_done),
    ]
    fields = instruction_layout(Opcode.STORE, SMALL)(unit.instruction)
    h.given(
        # Small transfers: the generator's proof covers the others.
        fields.x_size < 8,
        fields.y_size < 4,
        fields.x_stride < 16,
        fields.dram_base < 64,
        fields.sram_base < 8,
        ~unit.start | unit.free,
        started - retired < 16,
        ~unit.take_done | unit.done,
        ~channel.response | ((answers < addresses) & (answers < ends)),
    )
    # Every burst, in order, has as many beats as its address says: follow the k-th.
    k = h.constant(8, "burst")
    announced, known, sent = Signal.like(channel.request.last), Signal(), Signal(8)
    with h.m.If(address & (addresses == k)):
        h.m.d.sync += [announced.eq(channel.request.last), known.eq(1)]
    with h.m.If(data_ & (ends == k)):
        h.m.d.sync += sent.eq(sent + 1)
    over = Signal()
    with h.m.If(data_ & (ends == k) & channel.last):
        h.m.d.sync += over.eq(1)
    h.require(
        ~(known & over) | (sent == announced + 1),
        ~(known & ~over) | (sent <= announced),
        ~channel.valid | (channel.strobe != 0),
        addresses - answers <= SMALL.axi_outstanding,
    )
    return h


def test_the_read_address_stays_and_readers_take_turns(tmp_path: Path) -> None:
    assert run(arbiter(ReadArbiter(SMALL, SOURCES, SOURCES + 2)), tmp_path).holds


@pytest.mark.parametrize("wide", [False, True])
def test_write_address_and_data_stay_and_agree(wide: bool, tmp_path: Path) -> None:
    """Elements of half a beat and of two beats; the first 12 cycles."""
    config = SMALL.replace(block_in=16, block_out=16) if wide else SMALL
    assert run(store(StoreUnit(config)), tmp_path, mode="bmc", depth=12).holds


class DropsAddress(ReadArbiter):
    """The address leaves after one cycle, taken or not."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        with m.If(self.channel.request_valid & ~self.channel.request_ready):
            m.d.sync += self.channel.request_valid.eq(0)
        return m


class Stuck(ReadArbiter):
    """The first reader is always the next."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.sync += named(m, "granted").eq(SOURCES - 1)
        return m


class OverwritesBeat(StoreUnit):
    """The data register does not wait for the bus."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += named(m, "room").eq(1)
        return m


class DropsWriteAddress(StoreUnit):
    """The address queue moves on each cycle."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += m.submodules.requests.take.eq(1)
        return m


@pytest.mark.parametrize(
    ("properties", "planted", "arguments"),
    [
        (arbiter, DropsAddress, (SMALL, SOURCES, SOURCES + 2)),
        (arbiter, Stuck, (SMALL, SOURCES, SOURCES + 2)),
        (store, OverwritesBeat, (SMALL,)),
        (store, DropsWriteAddress, (SMALL,)),
    ],
)
def test_a_planted_bug_has_a_trace(
    properties: Any, planted: Any, arguments: tuple[Any, ...], tmp_path: Path
) -> None:
    assert run(properties(planted(*arguments)), tmp_path, mode="bmc", depth=12).refuted
