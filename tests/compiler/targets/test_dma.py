"""Copies as LOAD and STORE instructions, against a plain walk over the box."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from vdla.compiler.targets.vdla.dma import Block2d, Dim, blocks, collapse
from vdla.errors import LoweringError


def walk(dims: list[Dim]) -> list[int | None]:
    """Return, for each scratchpad entry, the memory entry it comes from; None is padding."""
    found: list[int | None] = []
    for point in product(*(range(dim.total) for dim in dims)):
        inside = all(d.before <= p < d.before + d.size for p, d in zip(point, dims, strict=True))
        at = sum((p - d.before) * d.stride for p, d in zip(point, dims, strict=True))
        found.append(at if inside else None)
    return found


def execute(block: Block2d, entries: dict[int, int | None]) -> None:
    at = block.sram
    for y in range(-block.y_pad_0, block.y_size + block.y_pad_1):
        for x in range(-block.x_pad_0, block.x_size + block.x_pad_1):
            inside = 0 <= y < block.y_size and 0 <= x < block.x_size
            assert at not in entries, "an entry is written twice"
            entries[at] = block.dram + y * block.x_stride + x if inside else None
            at += 1


def executed(dims: list[Dim]) -> list[int | None]:
    entries: dict[int, int | None] = {}
    for block in blocks(dims):
        assert max(block.y_pad_0, block.y_pad_1, block.x_pad_0, block.x_pad_1) <= 15
        execute(block, entries)
    return [entries[k] for k in range(len(entries))]


@pytest.mark.parametrize("seed", range(60))
def test_a_box_is_copied_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dims = []
    step = 1 if rng.random() < 0.7 else 3
    for _ in range(int(rng.integers(1, 5))):
        size = int(rng.integers(1, 6))
        before, after = (
            int(v) if rng.random() < 0.3 else 0 for v in rng.integers(0, 20 if seed % 3 else 3, 2)
        )
        dims.insert(0, Dim(size, step, before, after))
        step *= size * int(rng.integers(1, 3))
    assert executed(dims) == walk(dims)


def test_neighbours_that_follow_each_other_are_one() -> None:
    assert collapse([Dim(3, 196), Dim(14, 14), Dim(14, 1)]) == [Dim(588, 1)]
    assert collapse([Dim(3, 400), Dim(14, 14), Dim(14, 1)]) == [Dim(3, 400), Dim(196, 1)]
    assert len(list(blocks([Dim(3, 196), Dim(14, 14), Dim(14, 1)]))) == 1


def test_all_padding_reads_nothing() -> None:
    (block,) = blocks([Dim(0, 8, 4, 0), Dim(6, 1)])
    assert (block.y_size, block.y_pad_0, block.y_pad_1, block.x_size) == (0, 4, 0, 6)


def test_a_column_is_rows_of_one() -> None:
    (block,) = blocks([Dim(5, 7)])
    assert (block.y_size, block.x_size, block.x_stride) == (5, 1, 7)


def test_too_many_rows() -> None:
    with pytest.raises(LoweringError, match="rows must have at most 65535 entries .* use smaller"):
        list(blocks([Dim(70000, 2), Dim(1, 1)]))
