"""Default tiles, by shape."""

from __future__ import annotations

import pytest

from vdla.compiler.gpu.convolution_tiles import default_convolution_tile, default_depthwise_tile
from vdla.compiler.gpu.fetch import step_of
from vdla.compiler.gpu.product import default_product_tile


@pytest.mark.parametrize(
    ("depth", "most", "step"),
    [
        (1, 16, 1),
        (3, 8, 3),
        (5, 8, 5),
        (16, 16, 16),
        (7, 8, 7),
        (17, 16, 9),
        (20, 8, 8),
        (30, 16, 16),
        (33, 16, 12),
        (512, 8, 8),
    ],
)
def test_steps_are_even_and_of_whole_vectors(depth: int, most: int, step: int) -> None:
    assert step_of(depth, most) == step
    # No more steps than need be.
    assert -(-depth // step) == -(-depth // most)


PLAIN = {"strides": (1, 1), "dilation": (1, 1)}


@pytest.mark.parametrize(
    ("outputs", "groups", "channels"),
    [
        (64, 1, 32),
        (20, 1, 20),
        (64, 16, 32),  # eight groups of four
        (60, 10, 30),  # five groups of six
        (80, 2, 20),  # half a group
        (128, 2, 32),
        (12, 4, 12),
        (74, 2, 1),  # 37 is a prime above 32
    ],
)
def test_a_tiles_channels_are_of_one_group_or_of_whole_ones(
    outputs: int, groups: int, channels: int
) -> None:
    tile = default_convolution_tile((1, 8, 8, outputs), (outputs, 3, 3, 4), PLAIN, groups)
    assert tile.threads[0] * tile.channels == channels
    each = outputs // groups
    assert groups == 1 or each % channels == 0 or channels % each == 0


def test_two_blocks_of_a_depthwise_convolution_fit() -> None:
    tile = default_depthwise_tile((1, 112, 112, 96), (1, 3, 3, 96), PLAIN)
    assert tile.threads == (8, 4, 4)
    # (4 + 2) x (16 + 2) pixels of 32 channels, and 9 weights of each.
    assert 4 * 32 * (6 * 18 + 9) <= 16 << 10
    wide = default_depthwise_tile((1, 112, 112, 96), (1, 9, 9, 96), PLAIN)
    assert wide.threads == (2, 4, 4)  # 8 channels: of 32, one pixel would be too much
    assert 4 * 8 * (12 * 24 + 81) <= 16 << 10


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((1024, 1024, 512, 1), (128, 64)),  # 8 x 16 blocks
        ((512, 1024, 512, 1), (64, 64)),  # 8 x 16 again, and 64 of the larger
        ((512, 512, 512, 1), (32, 32)),
        ((512, 512, 512, 4), (128, 64)),
        ((1024, 1088, 64, 1), (128, 64)),  # 17 x 64 columns
        ((1025, 100, 64, 64), (128, 64)),
        ((130, 1024, 64, 64), (64, 64)),  # 256 rows would be computed, where 160 will do
        ((9, 1000, 64, 1), (12, 32)),
    ],
)
def test_a_product_has_the_largest_tiles_of_which_there_are_enough(
    shape: tuple[int, int, int, int], tile: tuple[int, int]
) -> None:
    made = default_product_tile(*shape)
    assert (made.threads[1] * made.rows, made.threads[0] * made.columns) == tile


@pytest.mark.parametrize(
    ("output", "sums"),
    [
        ((16, 28, 28, 128), 64),
        ((7, 28, 28, 128), 32),
        ((1, 28, 28, 128), 8),
        ((4, 28, 28, 96), 16),
        ((64, 7, 7, 512), 16),
    ],
)
def test_a_convolution_has_the_most_sums_with_which_there_are_enough_blocks(
    output: tuple[int, int, int, int], sums: int
) -> None:
    tile = default_convolution_tile(output, (output[3], 3, 3, 64), PLAIN)
    assert tile.channels * tile.columns == sums
