"""A stand-in for the accelerator: the real control port, and a core that copies memory.

It reads ``instruction_count`` beats from INP's base, all bursts as soon as the bus takes them, then
writes them to OUT's base, and is done with the last response. It ignores pages and trusts its
caller's addresses, so that a test can make it break rules.

It breaks other rules where ACC's base says so: bit 0 inverts WLAST, bit 1 moves the address of a
read that waits, bit 2 makes reads FIXED bursts.
"""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.config import Config
from vdla.gateware.axi_lite import AxiLite
from vdla.gateware.control import Control, CoreControl
from vdla.registers import ErrorCause, ErrorModule

DEPTH = 512
"""Beats that the buffer holds."""


def axi_ports(config: Config) -> dict[str, wiring.Member]:
    bits, length = config.axi_data_bits, 4 if config.axi_version == 3 else 8
    return {
        "araddr": Out(32),
        "arlen": Out(length),
        "arsize": Out(3),
        "arburst": Out(2),
        "arvalid": Out(1),
        "arready": In(1),
        "rdata": In(bits),
        "rresp": In(2),
        "rlast": In(1),
        "rvalid": In(1),
        "rready": Out(1),
        "awaddr": Out(32),
        "awlen": Out(length),
        "awsize": Out(3),
        "awburst": Out(2),
        "awvalid": Out(1),
        "awready": In(1),
        "wdata": Out(bits),
        "wstrb": Out(bits // 8),
        "wlast": Out(1),
        "wvalid": Out(1),
        "wready": In(1),
        "bresp": In(2),
        "bvalid": In(1),
        "bready": Out(1),
    }


class CopyCore(wiring.Component):
    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "control": In(CoreControl()),
                "m_axi": Out(wiring.Signature(axi_ports(config))),
                "trace_start": Out(3),
                "trace_finish": Out(3),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, control, axi = self._config, self.control, self.m_axi
        longest, beat_bytes = config.axi_burst_beats, config.axi_bytes
        size = beat_bytes.bit_length() - 1
        m.submodules.buffer = buffer = memory.Memory(
            shape=config.axi_data_bits, depth=DEPTH, init=[]
        )
        write, read = buffer.write_port(), buffer.read_port(domain="comb")
        count = control.instruction_count
        asked, got, told, sent, owed, in_flight = (
            Signal(16, name=n) for n in ("asked", "got", "told", "sent", "owed", "in_flight")
        )
        reading, writing = Signal(), Signal()
        offered = Signal(2)  # a burst that has been offered stays
        m.d.sync += [
            offered[0].eq(axi.arvalid & ~axi.arready),
            offered[1].eq(axi.awvalid & ~axi.awready),
        ]

        faults, moved = control.base.acc[:3], Signal(4)
        m.d.sync += moved.eq(Mux(faults[1] & axi.arvalid, moved + 1, 0))

        def burst(done: Signal) -> Signal:
            left = Signal.like(done)
            m.d.comb += left.eq(count - done)
            return Mux(left > longest, longest, left)

        m.d.comb += [
            axi.arsize.eq(size),
            axi.arburst.eq(Mux(faults[2], 0, 1)),
            axi.arlen.eq(burst(asked) - 1),
            axi.araddr.eq(control.base.inp + asked * beat_bytes + moved * beat_bytes),
            axi.arvalid.eq(reading & (asked != count) & (~control.stop | offered[0])),
            axi.rready.eq(1),
            write.addr.eq(got),
            write.data.eq(axi.rdata),
            write.en.eq(axi.rvalid),
            axi.awsize.eq(size),
            axi.awburst.eq(1),
            axi.awlen.eq(burst(told) - 1),
            axi.awaddr.eq(control.base.out + told * beat_bytes),
            axi.awvalid.eq(writing & (told != count) & (~control.stop | offered[1])),
            read.addr.eq(sent),
            axi.wdata.eq(read.data),
            axi.wstrb.eq(-1),
            axi.wvalid.eq(sent != told),
            axi.wlast.eq(((sent % longest == longest - 1) | (sent == count - 1)) ^ faults[0]),
            axi.bready.eq(1),
            control.bus_idle.eq((in_flight == 0) & (owed == 0) & ~axi.arvalid & ~axi.awvalid),
            control.idle.eq(~reading & ~writing & control.bus_idle),
        ]
        asks, answered = axi.arvalid & axi.arready, axi.rvalid & axi.rlast
        tells, acknowledged = axi.awvalid & axi.awready, axi.bvalid
        m.d.sync += [
            in_flight.eq(in_flight + asks - answered),
            owed.eq(owed + tells - acknowledged),
        ]
        with m.If(asks):
            m.d.sync += asked.eq(asked + burst(asked))
        with m.If(axi.rvalid):
            m.d.sync += got.eq(got + 1)
            with m.If(got == count - 1):
                m.d.sync += [reading.eq(0), writing.eq(1)]
        with m.If(tells):
            m.d.sync += told.eq(told + burst(told))
        with m.If(axi.wvalid & axi.wready):
            m.d.sync += sent.eq(sent + 1)
        last = writing & axi.bvalid & (owed == 1) & (told == count)
        with m.If(last):
            m.d.sync += writing.eq(0)
        m.d.comb += [
            control.done.eq(last),
            self.trace_start.eq(asks | tells << 2),
            self.trace_finish.eq(answered | acknowledged << 2),
            control.events.load.busy.eq(axi.rvalid),
            control.events.load.instructions.eq(answered),
            control.events.store.busy.eq(axi.wvalid & axi.wready),
        ]
        failed = axi.rvalid & axi.rresp[1], axi.bvalid & axi.bresp[1]
        m.d.comb += [
            control.error.valid.eq(failed[0] | failed[1]),
            control.error.module.eq(Mux(failed[0], ErrorModule.LOAD, ErrorModule.STORE)),
            control.error.cause.eq(Mux(failed[0], ErrorCause.AXI_READ, ErrorCause.AXI_WRITE)),
            control.error.index.eq(Mux(failed[0], Const(0), Const(1))),
        ]
        with m.If(control.start):
            m.d.sync += reading.eq(1)
        return m


class StandIn(wiring.Component):
    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "s_axi": In(AxiLite()),
                "m_axi": Out(wiring.Signature(axi_ports(config))),
                "interrupt": Out(1),
                "trace_start": Out(3),
                "trace_finish": Out(3),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.control = control = Control(self._config)
        reset = Signal()
        core = CopyCore(self._config)
        m.submodules.core = ResetInserter(reset)(core)
        connect(m, flipped(self.s_axi), control.s_axi)
        connect(m, control.core, core.control)
        connect(m, core.m_axi, flipped(self.m_axi))
        m.d.comb += [
            reset.eq(control.core.soft_reset & control.core.bus_idle),
            self.interrupt.eq(control.interrupt),
            self.trace_start.eq(core.trace_start),
            self.trace_finish.eq(core.trace_finish),
        ]
        return m
