"""Every burst of the generator is legal AXI, and a row's bursts cover it exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

from amaranth.hdl import Module, Signal

from tests.hw.formal.harness import Harness, named, run
from vdla.config import PYNQ_Z1, TINY, Config
from vdla.gateware.generator import BurstGenerator, transfer_layout
from vdla.timing import PAGE_BYTES

pytestmark = pytest.mark.rtl

LENGTH_BITS = 14
WIDE = PYNQ_Z1.replace(axi_version=4, axi_data_bits=128, axi_burst_beats=64)


def generator(unit: BurstGenerator, config: Config) -> Harness:
    """Follow `position`, the byte that comes next, through transfers of any shape.

    The second group of demands ties the generator's registers to the bookkeeping; it makes the
    first one inductive.
    """
    h = Harness(unit)
    fields = transfer_layout(config)(named(h.inner, "fields"))
    beat, burst = config.axi_bytes, unit.burst
    shift = (beat - 1).bit_length()
    h.free(unit.transfer.as_value(), unit.start, unit.take)
    transfer = unit.transfer
    h.given(
        ~unit.start | unit.free,
        ~unit.start | ((transfer.rows != 0) & (transfer.row_bytes != 0)),
        # Two pages and more; what is longer only repeats.
        transfer.row_bytes < 1 << LENGTH_BITS,
        transfer.stride_bytes < 1 << LENGTH_BITS,
    )
    wide = len(transfer.address)
    row, position = Signal(wide), Signal(wide)  # first byte of the row; next byte of it
    left = Signal(16)  # rows, this one included
    taken = unit.valid & unit.take
    m = h.m
    with m.If(taken):
        m.d.sync += position.eq(position + unit.bytes)
        with m.If(unit.last_in_row):
            m.d.sync += [
                row.eq(row + fields.stride_bytes),
                position.eq(row + fields.stride_bytes),
                left.eq(left - 1),
            ]
    with m.If(unit.start):
        m.d.sync += [
            row.eq(transfer.address),
            position.eq(transfer.address),
            left.eq(transfer.rows),
        ]
    beats = Signal(len(burst.last) + 1)
    in_row, first = Signal(len(fields.row_bytes)), Signal(wide)
    m.d.comb += [
        beats.eq(burst.last + 1),
        in_row.eq(position - row),
        first.eq(burst.address + unit.offset),
    ]
    rest = Signal(len(fields.row_bytes))
    m.d.comb += rest.eq(fields.row_bytes - in_row)
    covered = Signal(len(beats) + shift + 1)
    m.d.comb += covered.eq((beats << shift) - unit.offset)
    legal = (
        beats <= config.axi_burst_beats,
        burst.address[:shift] == 0,
        (burst.address[:12] + (beats << shift)) <= PAGE_BYTES,
        first == position,
        unit.bytes != 0,
        unit.bytes <= covered,
        # No beat without a byte of the row.
        unit.bytes + unit.offset > ((beats - 1) << shift),
        unit.bytes <= rest,
        unit.last_in_row == (unit.bytes == rest),
        unit.last == (unit.last_in_row & (left == 1)),
    )
    h.require(*(~unit.valid | holds for holds in legal))
    beats_left, bytes_left = h.register("beats_left"), h.register("bytes_left")
    row_valid, rows_left = named(h.inner, "$signal", 1), h.register("rows_left")
    row_address = h.register("row_address")
    needed = Signal(len(bytes_left) + 1)
    m.d.comb += needed.eq(bytes_left + unit.offset + (beat - 1))
    h.require(
        ~unit.valid | (bytes_left == rest),
        ~unit.valid | (bytes_left != 0),
        ~unit.valid | (in_row < fields.row_bytes),
        ~unit.valid | (beats_left == needed >> shift),
        ~unit.valid | (h.register("last_row") == (left == 1)),
        ~unit.valid | ((left != 0) & (row_valid == (left != 1))),
        ~(unit.valid & row_valid) | (row_address == (row + fields.stride_bytes)[:wide]),
        ~(unit.valid & row_valid) | (rows_left == left - 1),
        ~(row_valid & ~unit.valid) | ((row_address == row) & (rows_left == left)),
        ~(row_valid & ~unit.valid) | ((position == row) & (left != 0)),
        ~row_valid | (rows_left != 0),
        unit.free == ~(unit.valid | row_valid),
        unit.free | ((fields.row_bytes != 0) & (fields.row_bytes < 1 << LENGTH_BITS)),
    )
    return h


@pytest.mark.parametrize("config", [TINY, WIDE], ids=["axi3", "axi4-wide"])
def test_bursts_are_legal_and_cover_their_rows(config: Config, tmp_path: Path) -> None:
    assert run(generator(BurstGenerator(config), config), tmp_path, depth=2).holds


class CrossesPages(BurstGenerator):
    """The page is forgotten."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += named(m, "to_page").eq(PAGE_BYTES // self._config.axi_bytes)
        return m


class ForgetsOffset(BurstGenerator):
    """A row that begins inside a beat loses its last one."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += named(m, "span").eq(
            transfer_layout(self._config)(named(m, "fields")).row_bytes
            + (self._config.axi_bytes - 1)
        )
        return m


@pytest.mark.parametrize("planted", [CrossesPages, ForgetsOffset])
def test_a_planted_bug_has_a_trace(planted: type[BurstGenerator], tmp_path: Path) -> None:
    harness = generator(planted(TINY), TINY)
    assert run(harness, tmp_path, mode="bmc", depth=8).refuted
