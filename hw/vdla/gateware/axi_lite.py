"""An AXI4-Lite slave that turns transfers into reads and writes of 32-bit words."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ADDRESS_BITS", "DATA_BITS", "OKAY", "SLVERR", "AxiLite", "AxiLitePort", "WordAccess"]

ADDRESS_BITS = 12
DATA_BITS = 32
OKAY, SLVERR = 0b00, 0b10
_WORD_SHIFT = 2
"""Bits of a byte address below the word; they are ignored."""


class AxiLite(wiring.Signature):
    """The five channels of AXI4-Lite, by their names in the standard, seen from the master."""

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(ADDRESS_BITS),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(DATA_BITS),
                "wstrb": Out(DATA_BITS // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(ADDRESS_BITS),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(DATA_BITS),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class WordAccess(wiring.Signature):
    """Reads and writes of words, seen from the side that makes them.

    The other side answers within the cycle.

    Members
    -------
    write, write_word, write_data, write_mask
        A word is written, where the mask's bits are set, in a cycle with `write` high.
    write_error
        The write is refused.
    read_word, read_data, read_error
        What a word reads now; no word, or an error.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "write": Out(1),
                "write_word": Out(ADDRESS_BITS - _WORD_SHIFT),
                "write_data": Out(DATA_BITS),
                "write_mask": Out(DATA_BITS),
                "write_error": In(1),
                "read_word": Out(ADDRESS_BITS - _WORD_SHIFT),
                "read_data": In(DATA_BITS),
                "read_error": In(1),
            }
        )


class AxiLitePort(wiring.Component):
    """The slave: one read and one write at a time, no output on the bus depends on an input.

    Address and data of a write may come in either order. Nothing is taken in reset.

    Members
    -------
    axi : In(AxiLite())
    words : Out(WordAccess())
    """

    def __init__(self) -> None:
        super().__init__({"axi": In(AxiLite()), "words": Out(WordAccess())})

    def elaborate(self, platform: object) -> Module:
        """Connect both directions, which share nothing."""
        m = Module()
        awake = Signal()
        m.d.sync += awake.eq(1)
        self._writes(m, awake)
        self._reads(m, awake)
        return m

    def _writes(self, m: Module, awake: Signal) -> None:
        axi, words = self.axi, self.words
        has_address, has_data = Signal(), Signal()
        m.d.comb += [
            axi.awready.eq(awake & ~has_address),
            axi.wready.eq(awake & ~has_data),
            words.write.eq(has_address & has_data & ~axi.bvalid),
        ]
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += [has_address.eq(1), words.write_word.eq(axi.awaddr[_WORD_SHIFT:])]
        with m.If(axi.wvalid & axi.wready):
            mask = Cat(strobe.replicate(8) for strobe in axi.wstrb)
            m.d.sync += [
                has_data.eq(1),
                words.write_data.eq(axi.wdata),
                words.write_mask.eq(mask),
            ]
        with m.If(words.write):
            m.d.sync += [axi.bvalid.eq(1), axi.bresp.eq(Mux(words.write_error, SLVERR, OKAY))]
        with m.If(axi.bvalid & axi.bready):
            m.d.sync += [axi.bvalid.eq(0), has_address.eq(0), has_data.eq(0)]

    def _reads(self, m: Module, awake: Signal) -> None:
        axi, words = self.axi, self.words
        has_address = Signal()
        m.d.comb += axi.arready.eq(awake & ~has_address)
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += [has_address.eq(1), words.read_word.eq(axi.araddr[_WORD_SHIFT:])]
        with m.If(has_address & ~axi.rvalid):
            m.d.sync += [
                axi.rvalid.eq(1),
                axi.rdata.eq(words.read_data),
                axi.rresp.eq(Mux(words.read_error, SLVERR, OKAY)),
            ]
        with m.If(axi.rvalid & axi.rready):
            m.d.sync += [axi.rvalid.eq(0), has_address.eq(0)]
