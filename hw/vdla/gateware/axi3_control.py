"""From a Zynq-7000's general-purpose port, AXI3 with IDs and bursts, to the control port."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.errors import ConfigError

from .axi_lite import ADDRESS_BITS, DATA_BITS, SLVERR, AxiLite

__all__ = ["DECERR", "Axi3Bridge", "Axi3Control", "window"]

DECERR = 0b11

_ID_BITS = 12
_FIXED, _WRAP = 0b00, 0b10


class Axi3Control(wiring.Signature):
    """The channels of ``M_AXI_GP0`` that matter to registers, seen from the processor.

    Data is never interleaved on this port, so that the IDs of write data say nothing.
    """

    def __init__(self) -> None:
        address = {"id": _ID_BITS, "addr": 32, "len": 4, "size": 2, "burst": 2, "valid": 1}
        members: dict[str, object] = {}
        for channel in ("aw", "ar"):
            members |= {f"{channel}{name}": Out(width) for name, width in address.items()}
            members[f"{channel}ready"] = In(1)
        members |= {
            "wdata": Out(DATA_BITS),
            "wstrb": Out(DATA_BITS // 8),
            "wlast": Out(1),
            "wvalid": Out(1),
            "wready": In(1),
            "bid": In(_ID_BITS),
            "bresp": In(2),
            "bvalid": In(1),
            "bready": Out(1),
            "rid": In(_ID_BITS),
            "rdata": In(DATA_BITS),
            "rresp": In(2),
            "rlast": In(1),
            "rvalid": In(1),
            "rready": Out(1),
        }
        super().__init__(members)


def window(address: int, address_bytes: int) -> tuple[int, int]:
    """Return the bits of an address within a window, and the bits above them.

    Raises
    ------
    ConfigError
        The window is no power of two, or its address no multiple of it.
    """
    if address_bytes & (address_bytes - 1) or address % address_bytes:
        raise ConfigError(
            "A window of registers must be a power of two that its address is a multiple of, not "
            f"{address_bytes:#x} at {address:#x}."
        )
    bits = address_bytes.bit_length() - 1
    return bits, address >> bits


class Axi3Bridge(wiring.Component):
    """One burst of each direction at a time, a beat of it after the other.

    What lies outside the window is answered with a decode error, and a wrapping burst, which no
    access to registers makes, with a slave error; neither reaches the control port.

    Parameters
    ----------
    address, address_bytes : int
        The window of the registers, a power of two that the address is a multiple of.

    Members
    -------
    gp : In(Axi3Control())
    control : Out(AxiLite())
    """

    def __init__(self, address: int, address_bytes: int) -> None:
        self._window_bits, self._window = window(address, address_bytes)
        super().__init__({"gp": In(Axi3Control()), "control": Out(AxiLite())})

    def elaborate(self, platform: object) -> Module:
        """Connect both directions, which share nothing."""
        m = Module()
        self._writes(m)
        self._reads(m)
        return m

    def _refusal(self, address: Signal, burst: Signal) -> Value:
        """Return the error that a burst gets, 0 for none."""
        outside = address[self._window_bits :] != self._window
        return Mux(outside, DECERR, Mux(burst >= _WRAP, SLVERR, 0))

    def _writes(self, m: Module) -> None:
        gp, control = self.gp, self.control
        address, step = Signal(ADDRESS_BITS), Signal(3)
        refused, last = Signal(2), Signal()
        to_send_address, to_send_data = Signal(), Signal()
        m.d.comb += [
            control.awaddr.eq(address),
            control.awvalid.eq(to_send_address),
            control.wvalid.eq(to_send_data),
        ]
        with m.FSM(name="write"):
            with m.State("IDLE"):
                m.d.comb += gp.awready.eq(1)
                with m.If(gp.awvalid):
                    m.d.sync += [
                        gp.bid.eq(gp.awid),
                        gp.bresp.eq(self._refusal(gp.awaddr, gp.awburst)),
                        refused.eq(self._refusal(gp.awaddr, gp.awburst)),
                        address.eq(gp.awaddr),
                        step.eq(Mux(gp.awburst == _FIXED, 0, Const(1, 3) << gp.awsize)),
                    ]
                    m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += gp.wready.eq(1)
                with m.If(gp.wvalid):
                    m.d.sync += [control.wdata.eq(gp.wdata), control.wstrb.eq(gp.wstrb)]
                    m.d.sync += last.eq(gp.wlast)
                    with m.If(refused == 0):
                        m.d.sync += [to_send_address.eq(1), to_send_data.eq(1)]
                        m.next = "SEND"
                    with m.Elif(gp.wlast):
                        m.next = "ANSWER"
            with m.State("SEND"):
                with m.If(control.awready):
                    m.d.sync += to_send_address.eq(0)
                with m.If(control.wready):
                    m.d.sync += to_send_data.eq(0)
                m.d.comb += control.bready.eq(~to_send_address & ~to_send_data)
                with m.If(control.bvalid & control.bready):
                    m.d.sync += [gp.bresp.eq(gp.bresp | control.bresp), address.eq(address + step)]
                    m.next = "TAKE"
                    with m.If(last):
                        m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += gp.bvalid.eq(1)
                with m.If(gp.bready):
                    m.next = "IDLE"

    def _reads(self, m: Module) -> None:
        gp, control = self.gp, self.control
        address, step, left = Signal(ADDRESS_BITS), Signal(3), Signal(4)
        refused = Signal(2)
        m.d.comb += [control.araddr.eq(address), gp.rlast.eq(left == 0)]
        with m.FSM(name="read"):
            with m.State("IDLE"):
                m.d.comb += gp.arready.eq(1)
                with m.If(gp.arvalid):
                    m.d.sync += [
                        gp.rid.eq(gp.arid),
                        gp.rdata.eq(0),
                        gp.rresp.eq(self._refusal(gp.araddr, gp.arburst)),
                        refused.eq(self._refusal(gp.araddr, gp.arburst)),
                        address.eq(gp.araddr),
                        left.eq(gp.arlen),
                        step.eq(Mux(gp.arburst == _FIXED, 0, Const(1, 3) << gp.arsize)),
                    ]
                    m.next = "ASK"
                    with m.If(self._refusal(gp.araddr, gp.arburst) != 0):
                        m.next = "GIVE"
            with m.State("ASK"):
                m.d.comb += control.arvalid.eq(1)
                with m.If(control.arready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += control.rready.eq(1)
                with m.If(control.rvalid):
                    m.d.sync += [gp.rdata.eq(control.rdata), gp.rresp.eq(control.rresp)]
                    m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += gp.rvalid.eq(1)
                with m.If(gp.rready):
                    m.d.sync += [left.eq(left - 1), address.eq(address + step)]
                    with m.If(left == 0):
                        m.next = "IDLE"
                    with m.Elif(refused == 0):
                        m.next = "ASK"
