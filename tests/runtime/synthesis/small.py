"""A design whose resources can be counted by hand."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Small"]


class Small(wiring.Component):
    """A product of 16 bits by 16 bits, a memory of 2048 words of 36 bits, and a counter of 24.

    On series 7 that is one DSP48E1, two RAMB36E1 and 24 flip-flops, and the counter takes a LUT a
    bit at the most, one of them an inverter.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "a": In(signed(16)),
                "b": In(signed(16)),
                "product": Out(signed(32)),
                "address": In(11),
                "written": In(36),
                "write": In(1),
                "read": Out(36),
                "count": Out(24),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(shape=unsigned(36), depth=2048, init=[])
        write, read = words.write_port(), words.read_port()
        count = Signal(24)
        m.d.sync += count.eq(count + 1)
        m.d.comb += [
            self.product.eq(self.a * self.b),
            write.addr.eq(self.address),
            write.data.eq(self.written),
            write.en.eq(self.write),
            read.addr.eq(self.address),
            self.read.eq(read.data),
            self.count.eq(count),
        ]
        return m
