"""A LOAD of no rows: its padding alone, and no memory."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.config import TINY
from vdla.isa import Load, MemoryType
from vdla.sim.functional.machine import execute
from vdla.sim.functional.state import State


def _loaded(**fields: int) -> tuple[Load, State]:
    state = State.fresh(TINY, np.zeros(4, np.uint8), 0)
    load = Load(memory_type=MemoryType.INP, sram_base=2, dram_base=1 << 20, **fields)
    execute(state, load)
    return load, state


def test_no_rows_write_the_padding_above_and_below() -> None:
    load, state = _loaded(
        y_size=0, x_size=3, x_pad_0=1, x_pad_1=2, y_pad_0=2, y_pad_1=1, pad_value=-7
    )
    entries = (2 + 1) * (1 + 3 + 2)
    assert load.sram_size == entries
    assert (state.inp[0, 2 : 2 + entries] == -7).all()
    assert (state.inp[0, :2] != -7).all()
    assert (state.inp[0, 2 + entries :] != -7).all()


@pytest.mark.parametrize(
    "sizes",
    [
        {"y_size": 0, "x_size": 3},
        {"y_size": 0, "x_size": 3, "x_pad_0": 2},
        {"y_size": 4, "x_size": 0, "x_pad_0": 2, "y_pad_0": 1},
        {"y_size": 0, "x_size": 0, "x_pad_0": 2, "y_pad_0": 1},
    ],
)
def test_without_rows_of_padding_or_without_columns_nothing_is_written(
    sizes: dict[str, int],
) -> None:
    load, state = _loaded(**sizes, pad_value=9)
    assert load.sram_size == 0
    assert (state.inp != 9).all()
