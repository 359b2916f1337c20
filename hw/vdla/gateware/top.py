"""The top level: core and control behind plain AXI port names."""

from __future__ import annotations

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.config import Config

from .axi_lite import AxiLite
from .control import Control
from .core import Core
from .layouts import address_bits

__all__ = ["Top", "top_signature"]

_INCREMENTING = 0b01
_DATA = 0b000
"""Unprivileged, secure, data; a port without a driver would become an input."""

_CACHE = 0b0011
"""Normal, non-cacheable, bufferable: what the HP ports expect."""


def top_signature(config: Config) -> wiring.Signature:
    """Return the ports of a `Top`."""
    length = 4 if config.axi_version == 3 else 8
    address = {
        "addr": address_bits(config),
        "len": length,
        "size": 3,
        "burst": 2,
        "cache": 4,
        "prot": 3,
        "valid": 1,
    }
    data, strobe = config.axi_data_bits, config.axi_bytes
    members: dict[str, object] = {"s_axi": In(AxiLite())}
    for channel in ("ar", "aw"):
        members |= {f"m_axi_{channel}{name}": Out(width) for name, width in address.items()}
        members[f"m_axi_{channel}ready"] = In(1)
    members |= {
        "m_axi_rdata": In(data),
        "m_axi_rresp": In(2),
        "m_axi_rlast": In(1),
        "m_axi_rvalid": In(1),
        "m_axi_rready": Out(1),
        "m_axi_wdata": Out(data),
        "m_axi_wstrb": Out(strobe),
        "m_axi_wlast": Out(1),
        "m_axi_wvalid": Out(1),
        "m_axi_wready": In(1),
        "m_axi_bresp": In(2),
        "m_axi_bvalid": In(1),
        "m_axi_bready": Out(1),
        "interrupt": Out(1),
        "trace_start": Out(3),
        "trace_finish": Out(3),
    }
    return wiring.Signature(members)


class Top(wiring.Component):
    """An accelerator as an IP core.

    Members
    -------
    s_axi
        The control port, AXI4-Lite.
    m_axi_*
        The memory port, AXI3 or AXI4 as the configuration says.
    interrupt
        Level, done or error.
    trace_start, trace_finish
        For simulation: bit m, an instruction of module m starts or retires.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(top_signature(config))

    def elaborate(self, platform: object) -> Module:
        """Connect core, control and ports."""
        m = Module()
        config = self._config
        m.submodules.control = control = Control(config)
        m.submodules.core = core = Core(config)
        connect(m, flipped(self.s_axi), control.s_axi)
        connect(m, control.core, core.control)
        size = (config.axi_bytes - 1).bit_length()
        for channel, side in (("ar", core.read), ("aw", core.write)):
            m.d.comb += [
                self._port(channel, "addr").eq(side.request.address),
                self._port(channel, "len").eq(side.request.last),
                self._port(channel, "size").eq(size),
                self._port(channel, "burst").eq(_INCREMENTING),
                self._port(channel, "cache").eq(_CACHE),
                self._port(channel, "prot").eq(_DATA),
                self._port(channel, "valid").eq(side.request_valid),
                side.request_ready.eq(self._port(channel, "ready")),
            ]
        m.d.comb += [
            core.read.data.eq(self.m_axi_rdata),
            core.read.last.eq(self.m_axi_rlast),
            core.read.error.eq(self.m_axi_rresp[1]),
            core.read.valid.eq(self.m_axi_rvalid),
            self.m_axi_rready.eq(1),
            self.m_axi_wdata.eq(core.write.data),
            self.m_axi_wstrb.eq(core.write.strobe),
            self.m_axi_wlast.eq(core.write.last),
            self.m_axi_wvalid.eq(core.write.valid),
            core.write.ready.eq(self.m_axi_wready),
            core.write.response.eq(self.m_axi_bvalid),
            core.write.response_error.eq(self.m_axi_bresp[1]),
            self.m_axi_bready.eq(1),
            self.interrupt.eq(control.interrupt),
            self.trace_start.eq(core.trace_start),
            self.trace_finish.eq(core.trace_finish),
        ]
        return m

    def _port(self, channel: str, name: str) -> Value:
        return Value.cast(getattr(self, f"m_axi_{channel}{name}"))
