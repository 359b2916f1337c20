"""The burst generator: rows of a transfer as bursts, one a cycle."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config
from vdla.timing import PAGE_BYTES

from .layouts import address_bits, beats_bits, request_layout

__all__ = ["BurstGenerator", "transfer_layout"]

SIZE_BITS = 16


def transfer_layout(config: Config) -> data.StructLayout:
    """Return what the generator needs of a LOAD or STORE, in bytes; at least one row."""
    row_bits = SIZE_BITS + (PAGE_BYTES - 1).bit_length()
    return data.StructLayout(
        {
            "address": address_bits(config),
            "rows": SIZE_BITS,
            "row_bytes": row_bits,
            "stride_bytes": row_bits,
        }
    )


class BurstGenerator(wiring.Component):
    """Splits transfers at rows, at pages and at the longest burst.

    Two stages: the first works out a row's first beat and its beats, the second takes bursts off
    it. A transfer started in cycle t has its first burst in cycle t + 2 (`setup_cycles`).

    Members
    -------
    transfer, start, free
        A transfer is accepted in a cycle with `start`, only where the generator is `free`.
    burst, bytes, offset, last_in_row, last, valid, take
        The present burst: its request, its bytes that belong to the row, the byte of its first
        beat at which they begin, whether it ends the row and the transfer.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        lanes = max(1, (config.axi_bytes - 1).bit_length())
        burst_bytes = config.axi_burst_beats * config.axi_bytes
        super().__init__(
            {
                "transfer": In(transfer_layout(config)),
                "start": In(1),
                "free": Out(1),
                "burst": Out(request_layout(config)),
                "bytes": Out(range(burst_bytes + 1)),
                "offset": Out(lanes),
                "last_in_row": Out(1),
                "last": Out(1),
                "valid": Out(1),
                "take": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build both stages."""
        m = Module()
        config = self._config
        beat = config.axi_bytes
        lane_bits = (beat - 1).bit_length()
        busy = Signal()
        fields = Signal(transfer_layout(config))
        m.d.comb += self.free.eq(~busy)

        # Stage 1: the row that comes next.
        row_valid, rows_left = Signal(), Signal(SIZE_BITS)
        row_address = Signal(address_bits(config))
        span = Signal(len(fields.row_bytes) + 1)
        row_beats = Signal(len(fields.row_bytes))
        m.d.comb += [
            span.eq(row_address[:lane_bits] + fields.row_bytes + (beat - 1)),
            row_beats.eq(span >> lane_bits),
        ]

        # Stage 2: the row that bursts are taken off.
        cursor = Signal(address_bits(config) - lane_bits)
        beats_left = Signal.like(row_beats)
        bytes_left = Signal.like(fields.row_bytes)
        last_row = Signal()
        page_beats = PAGE_BYTES // beat
        to_page = Signal(range(page_beats + 1))
        beats = Signal(range(config.axi_burst_beats + 1))
        limit = Signal.like(beats)
        room = Signal.like(self.bytes)
        m.d.comb += [
            to_page.eq(page_beats - cursor[: (page_beats - 1).bit_length()]),
            limit.eq(Mux(to_page < config.axi_burst_beats, to_page, config.axi_burst_beats)),
            beats.eq(Mux(beats_left < limit, beats_left, limit)),
            self.burst.address.eq(cursor << lane_bits),
            self.burst.last.eq((beats - 1)[: beats_bits(config)]),
            room.eq((beats << lane_bits) - self.offset),
            self.bytes.eq(Mux(bytes_left < room, bytes_left, room)),
            self.last_in_row.eq(beats == beats_left),
            self.last.eq(self.last_in_row & last_row),
        ]

        advance = Signal()
        m.d.comb += advance.eq(~self.valid | (self.take & self.last_in_row))
        with m.If(self.valid & self.take & ~self.last_in_row):
            m.d.sync += [
                cursor.eq(cursor + beats),
                beats_left.eq(beats_left - beats),
                bytes_left.eq(bytes_left - self.bytes),
                self.offset.eq(0),
            ]
        with m.If(advance):
            m.d.sync += [
                self.valid.eq(row_valid),
                cursor.eq(row_address[lane_bits:]),
                self.offset.eq(row_address[:lane_bits]),
                beats_left.eq(row_beats),
                bytes_left.eq(fields.row_bytes),
                last_row.eq(rows_left == 1),
            ]
            with m.If(row_valid):
                m.d.sync += [
                    row_address.eq(row_address + fields.stride_bytes),
                    rows_left.eq(rows_left - 1),
                    row_valid.eq(rows_left != 1),
                ]
        with m.If(self.valid & self.take & self.last):
            m.d.sync += busy.eq(0)
        with m.If(self.start):
            m.d.sync += [
                busy.eq(1),
                fields.eq(self.transfer),
                row_address.eq(self.transfer.address),
                rows_left.eq(self.transfer.rows),
                row_valid.eq(1),
            ]
        return m
