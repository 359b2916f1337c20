"""What benches run: all units in one model, because compiling takes time, and the top."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.config import TINY, Config
from vdla.gateware.control import Control
from vdla.gateware.generator import BurstGenerator
from vdla.gateware.load import LoadUnit, compute_kinds, load_kinds
from vdla.gateware.matmul import MatrixProduct
from vdla.gateware.queues import CommandQueue, TokenQueue
from vdla.gateware.sequencer import Sequencer
from vdla.gateware.slow import SlowLane
from vdla.gateware.store import StoreUnit
from vdla.gateware.top import Top

__all__ = ["QUEUE_BITS", "QUEUE_DEPTH", "WIDE", "Axi4Top", "Units"]

WIDE = TINY.replace(block_in=16, block_out=16, acc_bytes=32 << 10, inp_bytes=8 << 10, name="wide")
"""Elements of OUT are two beats, where TINY's are half of one."""

QUEUE_BITS, QUEUE_DEPTH = 16, 4


class Units(wiring.Component):
    """The units beside each other; port ``x`` of unit ``u`` is ``u_x``."""

    def __init__(self) -> None:
        self._units = {
            "generator": BurstGenerator(TINY),
            "load": LoadUnit(TINY, load_kinds(TINY)),
            "loader": LoadUnit(TINY, compute_kinds(TINY)),
            "store": StoreUnit(TINY),
            "wide_store": StoreUnit(WIDE),
            "queue": CommandQueue(QUEUE_BITS, QUEUE_DEPTH),
            "tokens": TokenQueue(QUEUE_DEPTH),
            "sequencer": Sequencer(TINY),
            "lane": SlowLane(),
            "product": MatrixProduct(TINY),
            "control": Control(TINY),
        }
        super().__init__({name: Out(unit.signature) for name, unit in self._units.items()})

    def elaborate(self, platform: object) -> Module:
        """Connect each unit's ports."""
        m = Module()
        for name, unit in self._units.items():
            m.submodules[f"{name}_unit"] = unit
            connect(m, flipped(getattr(self, name)), unit)
        return m


class Axi4Top(wiring.Component):
    """The top with the ports that cocotbext-axi knows: AXI4's lengths of 8 bits, and IDs."""

    def __init__(self, config: Config) -> None:
        self._top = Top(config)
        members = dict(self._top.signature.members)
        for channel in ("ar", "aw"):
            members |= {f"m_axi_{channel}len": Out(8), f"m_axi_{channel}id": Out(1)}
        super().__init__(members | {"m_axi_rid": In(1), "m_axi_bid": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Connect the ports; every ID is 0."""
        m = Module()
        m.submodules.top = self._top
        for name, member in self._top.signature.members.items():
            outer, inner = getattr(self, name), getattr(self._top, name)
            if name == "s_axi":
                connect(m, flipped(outer), inner)
            else:
                m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        return m
