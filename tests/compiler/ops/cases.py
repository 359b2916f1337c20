"""Odd shapes of every operator, each with something that blocks, tiles or padding get wrong."""

from __future__ import annotations

from collections.abc import Callable

from tests.compiler.ops import nodes
from vdla.compiler.graph import Graph

__all__ = ["CASES", "RECHECKED"]

ONE = ((1, 1), (1, 1))
TWO = ((2, 2), (2, 2))

CASES: dict[str, Callable[[], Graph]] = {
    "conv-3-channels": lambda: nodes.conv2d((1, 7, 5, 3), 20, pads=ONE),
    "conv-255-channels-1x1-image": lambda: nodes.conv2d(
        (1, 1, 1, 255), 20, (1, 1), zeros=(-128, 127), clip=(-5, 100)
    ),
    "conv-stride-3": lambda: nodes.conv2d(
        (1, 9, 8, 20), 3, strides=(3, 3), pads=((0, 1), (1, 0)), zeros=(127, 0)
    ),
    "conv-1x1-stride-3": lambda: nodes.conv2d((1, 7, 5, 20), 20, (1, 1), strides=(3, 3)),
    "conv-stride-past-kernel": lambda: nodes.conv2d(
        (1, 7, 8, 20), 20, (2, 2), strides=(3, 4), pads=((1, 1), (0, 1))
    ),
    "conv-one-row-stride-3": lambda: nodes.conv2d(
        (1, 7, 5, 3), 20, (1, 2), strides=(3, 3), pads=((0, 0), (1, 1))
    ),
    "conv-batch-4": lambda: nodes.conv2d((4, 7, 5, 20), 20, pads=ONE),
    "conv-batch-3": lambda: nodes.conv2d((3, 5, 5, 20), 20, clip=(3, 66), zeros=(0, 3)),
    "conv-batch-5": lambda: nodes.conv2d((5, 3, 3, 3), 20, pads=ONE),
    "conv-1x7": lambda: nodes.conv2d((1, 7, 9, 20), 20, (1, 7), pads=((0, 0), (3, 3))),
    "conv-7x1": lambda: nodes.conv2d((1, 9, 5, 20), 20, (7, 1), pads=((3, 3), (0, 0))),
    "conv-5x5": lambda: nodes.conv2d((1, 7, 5, 20), 20, (5, 5), pads=TWO),
    "conv-11x11": lambda: nodes.conv2d((1, 23, 25, 3), 20, (11, 11), strides=(4, 4), pads=TWO),
    "conv-dilation-2": lambda: nodes.conv2d((1, 9, 8, 20), 20, dilation=(2, 2), pads=TWO),
    "conv-dilation-1-3": lambda: nodes.conv2d((1, 9, 8, 20), 20, dilation=(1, 3), strides=(2, 1)),
    "conv-asymmetric": lambda: nodes.conv2d((1, 7, 5, 20), 20, pads=((0, 1), (2, 0))),
    "conv-padding-past-half": lambda: nodes.conv2d((1, 7, 5, 20), 20, pads=TWO, zeros=(-128, 0)),
    "depthwise-3-channels": lambda: nodes.depthwise((1, 7, 5, 3), pads=ONE),
    "depthwise-stride-2": lambda: nodes.depthwise(
        (1, 7, 5, 20), strides=(2, 2), pads=((0, 1), (1, 1)), zeros=(127, -128)
    ),
    "depthwise-255-channels": lambda: nodes.depthwise((1, 3, 3, 255)),
    "depthwise-batch-4-1x1-image": lambda: nodes.depthwise((4, 1, 1, 255), (1, 1)),
    "depthwise-5x5-dilated": lambda: nodes.depthwise(
        (1, 9, 8, 20), (5, 5), dilation=(2, 1), pads=((3, 3), (2, 2)), clip=(0, 90)
    ),
    "depthwise-2-a-channel": lambda: nodes.depthwise(
        (1, 7, 5, 20), multiplier=2, strides=(2, 1), pads=ONE
    ),
    "depthwise-4-a-channel-batch-3": lambda: nodes.depthwise((3, 5, 5, 3), (2, 2), multiplier=4),
    "depthwise-8-of-1-channel": lambda: nodes.depthwise((1, 9, 8, 1), multiplier=8, pads=ONE),
    "dense-255": lambda: nodes.dense((1, 255), 20),
    "dense-batch-4": lambda: nodes.dense((4, 20), 255, zeros=(-128, 127)),
    "dense-batch-5-double": lambda: nodes.dense((5, 3), 3, zeros=(127, 0), rounding="double"),
    "add-7x5": lambda: nodes.add((1, 7, 5, 20)),
    "add-swapped-scales": lambda: nodes.add((1, 7, 5, 3), scales=(1.9, 0.7, 1.1), clip=(-128, 90)),
    "add-equal-scales": lambda: nodes.add((1, 5, 3, 20), scales=(0.3, 0.3, 0.2)),
    "add-batch-3-1x1-image": lambda: nodes.add((3, 1, 1, 255), clip=(0, 100)),
    "add-2-dimensions": lambda: nodes.add((1, 20)),
    "max-3x3-stride-2": lambda: nodes.pool(
        "max_pool2d", (1, 7, 5, 20), (3, 3), strides=(2, 2), pads=ONE
    ),
    "max-stride-past-window": lambda: nodes.pool(
        "max_pool2d", (1, 7, 5, 255), (2, 2), strides=(3, 3)
    ),
    "max-1x3-clipped": lambda: nodes.pool(
        "max_pool2d", (4, 7, 5, 3), (1, 3), strides=(1, 2), clip=(-3, 50), pads=((0, 0), (1, 0))
    ),
    "max-4x1": lambda: nodes.pool("max_pool2d", (1, 9, 3, 20), (4, 1), pads=((3, 2), (0, 0))),
    "max-1x1": lambda: nodes.pool("max_pool2d", (1, 1, 1, 20), (1, 1)),
    "max-1x1-stride-2": lambda: nodes.pool(
        "max_pool2d", (1, 5, 7, 20), (1, 1), strides=(2, 2), clip=(-60, 60)
    ),
    "max-3x3-stride-1": lambda: nodes.pool("max_pool2d", (3, 7, 5, 20), (3, 3), pads=ONE),
    "max-5x2-stride-2-1": lambda: nodes.pool(
        "max_pool2d", (1, 9, 8, 20), (5, 2), strides=(2, 1), pads=((2, 2), (0, 1)), clip=(0, 127)
    ),
    "max-300-columns": lambda: nodes.pool(
        "max_pool2d", (1, 4, 300, 3), (3, 3), strides=(2, 2), pads=ONE
    ),
    "average-2x2": lambda: nodes.pool("avg_pool2d", (1, 7, 5, 20), (2, 2), strides=(2, 2)),
    "average-whole-image": lambda: nodes.pool("avg_pool2d", (3, 7, 5, 255), (7, 5)),
    "average-stride-3": lambda: nodes.pool(
        "avg_pool2d", (1, 7, 5, 3), (3, 2), strides=(3, 3), clip=(-10, 20)
    ),
    "average-3x3-same": lambda: nodes.pool("avg_pool2d", (1, 7, 5, 20), (3, 3), pads=ONE),
    "average-3x2-same-stride-2": lambda: nodes.pool(
        "avg_pool2d", (3, 8, 9, 40), (3, 2), strides=(2, 2), pads=((0, 1), (0, 1)), clip=(-9, 40)
    ),
    "average-1x1-stride-2": lambda: nodes.pool("avg_pool2d", (1, 7, 5, 20), (1, 1), strides=(2, 2)),
    "mean-7x5": lambda: nodes.mean((1, 7, 5, 20)),
    "mean-batch-4": lambda: nodes.mean((4, 7, 7, 255), keep_dims=True, zeros=(-128, -128)),
    "mean-1x1-image": lambda: nodes.mean((1, 1, 1, 3), scales=(0.5, 0.7)),
    "relu": lambda: nodes.rescale("relu", (1, 7, 5, 20), clip=(-5, 127)),
    "relu6": lambda: nodes.rescale("relu6", (3, 7, 5, 3), clip=(-128, 44), zeros=(0, -128)),
    "leaky-tenth": lambda: nodes.leaky((1, 7, 5, 20), 0.1),
    "leaky-eighth-onto-finer": lambda: nodes.leaky(
        (3, 5, 4, 20), 0.125, scales=(0.5, 0.13), zeros=(-128, 90)
    ),
    "leaky-flat": lambda: nodes.leaky((1, 7, 5, 3), 0.0, zeros=(127, -128)),
    "leaky-straight": lambda: nodes.leaky((1, 1, 1, 255), 1.0, scales=(0.5, 0.5), zeros=(0, 0)),
    "quantize-1x1-image": lambda: nodes.rescale("quantize", (1, 1, 1, 255), zeros=(-128, 127)),
    "quantize-batch-4": lambda: nodes.rescale(
        "quantize", (4, 20), zeros=(127, 127), scales=(0.5, 0.500001)
    ),
    "depthwise-3-a-channel": lambda: nodes.depthwise((1, 5, 6, 20), multiplier=3, pads=ONE),
    "grouped-24-to-24": lambda: nodes.conv2d((1, 6, 5, 96), 96, groups=4, pads=ONE),
    "grouped-8-to-8": lambda: nodes.conv2d((1, 5, 6, 40), 40, groups=5, pads=ONE),
    "grouped-32-of-4": lambda: nodes.conv2d((1, 5, 4, 128), 128, groups=32, strides=(2, 2)),
    "grouped-20-to-12-dilated": lambda: nodes.conv2d(
        (1, 9, 8, 60), 36, groups=3, dilation=(2, 3), pads=TWO
    ),
    "grouped-64-to-32-batch-3": lambda: nodes.conv2d((3, 5, 4, 128), 64, groups=2, pads=ONE),
    "grouped-1-to-5-stride-2": lambda: nodes.conv2d(
        (1, 7, 7, 7), 35, groups=7, strides=(2, 2), pads=ONE
    ),
    "grouped-1x1": lambda: nodes.conv2d((1, 4, 4, 48), 64, (1, 1), groups=16),
    "conv-dilation-2-stride-2": lambda: nodes.conv2d(
        (1, 11, 12, 20), 20, dilation=(2, 2), strides=(2, 2), pads=TWO
    ),
    "conv-dilation-3-stride-3": lambda: nodes.conv2d(
        (1, 13, 11, 3), 20, dilation=(3, 3), strides=(3, 2), pads=((3, 3), (3, 2))
    ),
    "depthwise-dilation-3-stride-2": lambda: nodes.depthwise(
        (1, 11, 9, 20), dilation=(3, 2), strides=(2, 2), pads=((3, 3), (2, 1))
    ),
    "uint8-conv": lambda: nodes.as_uint8(nodes.conv2d((1, 7, 5, 20), 20, pads=ONE)),
    "uint8-conv-few-beyond": lambda: nodes.as_uint8(
        nodes.conv2d((1, 7, 6, 40), 40, strides=(2, 1), dilation=(1, 2), pads=TWO), 120, 4
    ),
    "uint8-conv-below": lambda: nodes.as_uint8(
        nodes.conv2d((3, 5, 5, 20), 20, clip=(3, 66), zeros=(0, 3)), 200, 3
    ),
    "uint8-conv-1x1-stride-2": lambda: nodes.as_uint8(
        nodes.conv2d((1, 7, 6, 40), 20, (1, 1), strides=(2, 2)), 3, 5
    ),
    "uint8-conv-all-beyond": lambda: nodes.as_uint8(nodes.conv2d((1, 5, 4, 40), 40, pads=ONE), 10),
    "uint8-conv-255-apart": lambda: nodes.as_uint8(nodes.conv2d((1, 5, 4, 20), 20), 0, 2),
    "uint8-conv-255-apart-everywhere": lambda: nodes.as_uint8(
        nodes.conv2d((1, 5, 4, 20), 20), 0, 2000
    ),
    "uint8-depthwise-beyond": lambda: nodes.as_uint8(
        nodes.depthwise((1, 7, 5, 40), strides=(2, 2), pads=ONE), 140, 3
    ),
    "uint8-grouped-beyond": lambda: nodes.as_uint8(
        nodes.conv2d((1, 6, 5, 48), 48, groups=2, pads=ONE), 110, 3
    ),
    "uint8-deep-conv-beyond": lambda: nodes.as_uint8(
        nodes.conv2d((1, 4, 3, 240), 8, pads=ONE), 120, 2
    ),
    "uint8-dense-beyond": lambda: nodes.as_uint8(nodes.dense((4, 50), 30), 99, 6),
    "uint8-average-2x2": lambda: nodes.as_uint8(
        nodes.pool("avg_pool2d", (1, 7, 5, 20), (2, 2), strides=(2, 2))
    ),
    "uint8-average-same": lambda: nodes.as_uint8(
        nodes.pool("avg_pool2d", (3, 8, 9, 40), (3, 2), strides=(2, 2), pads=((0, 1), (0, 1)))
    ),
    "uint8-average-6x6": lambda: nodes.as_uint8(nodes.pool("avg_pool2d", (1, 7, 6, 40), (6, 6))),
    "uint8-mean": lambda: nodes.as_uint8(nodes.mean((1, 7, 5, 20))),
    "uint8-max": lambda: nodes.as_uint8(
        nodes.pool("max_pool2d", (1, 7, 5, 20), (3, 3), strides=(2, 2), pads=ONE, clip=(0, 90))
    ),
    "uint8-add": lambda: nodes.as_uint8(nodes.add((1, 7, 5, 20), clip=(-128, 90))),
    "uint8-leaky": lambda: nodes.as_uint8(nodes.leaky((1, 7, 5, 20), 0.3, scales=(0.5, 0.4))),
    "uint8-relu6": lambda: nodes.as_uint8(nodes.rescale("relu6", (3, 7, 5, 3), clip=(-128, 44))),
    "uint8-to-int8": lambda: nodes.mixed(nodes.rescale("quantize", (1, 5, 4, 20)), "x"),
    "int8-to-uint8": lambda: nodes.mixed(nodes.rescale("quantize", (1, 5, 4, 20)), "y"),
}
"""At least two odd shapes an operator; zero points -128, 0 and 127, clips of ReLU6 among them."""

RECHECKED = (
    "conv-3-channels",
    "conv-stride-past-kernel",
    "conv-batch-5",
    "depthwise-stride-2",
    "dense-batch-4",
    "add-7x5",
    "max-3x3-stride-2",
    "max-stride-past-window",
    "max-5x2-stride-2-1",
    "average-stride-3",
    "average-3x2-same-stride-2",
    "depthwise-2-a-channel",
    "mean-7x5",
    "relu6",
    "leaky-eighth-onto-finer",
    "grouped-24-to-24",
    "uint8-conv-few-beyond",
    "uint8-conv-all-beyond",
    "uint8-depthwise-beyond",
    "uint8-grouped-beyond",
)
"""Those that the cycle model and the race detector see too."""
