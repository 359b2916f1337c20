"""Schedules that come with the compiler: readable, of this template, and as fast as they say."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.ops.conv2d import Conv2d, conv2d
from vdla.compiler.ops.conv_schedule import schedule_conv2d
from vdla.compiler.ops.footprint import fits
from vdla.compiler.ops.records import (
    Record,
    _packaged,
    find_record,
    read_records,
    shape_of,
    write_records,
)
from vdla.compiler.ops.tiling import choose_tile
from vdla.compiler.targets.vdla.build import build
from vdla.config import PYNQ_Z1
from vdla.sim import cycle

LISTED = Conv2d(
    batch_blocks=1,
    in_blocks=2,
    out_blocks=3,
    height=9,
    width=9,
    kernel=(3, 3),
    padding=((1, 0), (1, 1)),
    listed=((0, 1, 2, 0), (2, 0, 0, 0)),
    zero_point=7,
    clip=(0, 9),
)


def test_a_record_reads_as_it_was_written() -> None:
    tile, cycles = choose_tile(LISTED, PYNQ_Z1)
    record = Record(shape_of(LISTED), PYNQ_Z1.hash, 30, 2, tile, cycles)
    text = write_records([record])
    assert read_records(text) == [record]
    assert text.count("\n") == 1
    assert read_records(text.replace('"template": 1', '"template": 0')) == []


def test_zero_point_and_clip_have_no_part_in_a_shape() -> None:
    assert shape_of(LISTED) == shape_of(
        Conv2d(**{**vars(shape_of(LISTED)), "zero_point": -3, "clip": (-5, 5)})
    )


def test_the_records_of_the_built_in_networks_fit() -> None:
    records = _packaged().values()
    assert len(records) > 50
    for record in records:
        assert record.config_hash == PYNQ_Z1.hash
        assert fits(record.conv, record.tile, PYNQ_Z1)
        assert find_record(record.conv, PYNQ_Z1, record.vthreads) == record
        assert choose_tile(record.conv, PYNQ_Z1) == (record.tile, record.cycles)
        assert find_record(record.conv, PYNQ_Z1.replace(dram_latency_cycles=31), 2) is None


def test_a_recorded_schedule_takes_the_cycles_it_says() -> None:
    plain = [r for r in _packaged().values() if not r.conv.added_passes and not r.conv.listed]
    small = sorted(plain, key=lambda r: r.cycles)[:40]
    for n in np.random.default_rng(0).permutation(len(small))[:5]:
        record = small[n]
        tensors = conv2d(record.conv, PYNQ_Z1)
        schedule = schedule_conv2d(tensors, record.tile, PYNQ_Z1)
        operator = build(schedule, tensors.arguments, PYNQ_Z1)
        assert cycle.time(operator.program, operator.memory({})).cycles == record.cycles


@pytest.mark.parametrize("vthreads", [1, 2])
def test_a_measure_is_asked_whatever_is_recorded(vthreads: int) -> None:
    asked = []

    def measure(tile):
        asked.append(tile)
        return 100 + len(asked)

    assert choose_tile(LISTED, PYNQ_Z1, vthreads=vthreads, measure=measure)[1] <= 101
    assert asked
