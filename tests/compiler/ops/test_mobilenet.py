"""The depthwise convolutions of MobileNetV1, 3x3 with a margin of 1, on every configuration."""

from __future__ import annotations

import pytest

from tests.compiler.ops.nodes import as_uint8, compare, depthwise
from tests.configs import MATRIX
from vdla.compiler.graph import Graph
from vdla.config import PYNQ_Z1, TINY, Config

SHAPES = (
    (112, 32, 1),
    (112, 64, 2),
    (56, 128, 1),
    (56, 128, 2),
    (28, 256, 1),
    (28, 256, 2),
    (14, 512, 1),
    (14, 512, 2),
    (7, 1024, 1),
)
"""Size, channels and stride: table 1 of the MobileNets paper."""

every_config = pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)


def layer(size: int, channels: int, stride: int) -> Graph:
    pads = ((1, 1), (1, 1))
    return depthwise((1, size, size, channels), strides=(stride, stride), pads=pads)


@pytest.mark.slow
@every_config
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_depthwise(shape: tuple[int, int, int], config: Config) -> None:
    compare(layer(*shape), config)


@pytest.mark.parametrize("config", [PYNQ_Z1, TINY], ids=lambda config: config.name)
def test_the_last_two_shapes(config: Config) -> None:
    for shape in SHAPES[-2:]:
        compare(layer(*shape), config)


@pytest.mark.slow
@every_config
def test_a_uint8_one_with_weights_beyond_int8(config: Config) -> None:
    compare(as_uint8(layer(14, 512, 2), 140, 5), config)
