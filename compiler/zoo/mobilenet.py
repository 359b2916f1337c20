"""MobileNets for ImageNet, at full width."""

from __future__ import annotations

from vdla.compiler.graph import Graph

from .builder import OPEN, RELU6, Builder, calibrated

__all__ = ["mobilenet_v1", "mobilenet_v2"]

_INPUT = (1, 224, 224, 3)
_CLASSES = 1000

_V1 = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
"""Channels and stride of each depthwise-separable pair.

Source: Andrew Howard and others, "MobileNets", 2017, table 1. The stride that it gives the last
pair, 2, is 1 in every implementation: its output is 7 x 7 like its input.
"""

_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, count and first stride of each row of inverted residuals.

Source: Mark Sandler and others, "MobileNetV2", CVPR 2018, table 2.
"""


def mobilenet_v1(quantized: bool = True) -> Graph:
    """Return MobileNetV1 1.0 for 224 x 224 x 3 images, its weights drawn with seed 0.

    Parameters
    ----------
    quantized : bool
        int8, calibrated on `sample_image`; or the float32 network.

    Returns
    -------
    Graph
        ``input`` (1, 224, 224, 3) to ``dense.out`` (1, 1000). Convolutions are called ``conv1``,
        ``pair<n>_depthwise`` and ``pair<n>_pointwise``. Padding is TensorFlow's SAME.
    """
    net = Builder("mobilenet_v1", _INPUT)
    x = net.conv("conv1", "input", 32, 3, 2, RELU6, same=True)
    for index, (channels, stride) in enumerate(_V1, start=1):
        x = net.depthwise(f"pair{index}_depthwise", x, stride, RELU6)
        x = net.conv(f"pair{index}_pointwise", x, channels, 1, 1, RELU6)
    graph = net.finish(net.dense("dense", net.mean("mean", x), _CLASSES))
    return calibrated(graph) if quantized else graph


def mobilenet_v2(quantized: bool = True) -> Graph:
    """Return MobileNetV2 1.0 for 224 x 224 x 3 images, its weights drawn with seed 0.

    Parameters
    ----------
    quantized : bool
        int8, calibrated on `sample_image`; or the float32 network.

    Returns
    -------
    Graph
        ``input`` (1, 224, 224, 3) to ``dense.out`` (1, 1000). Convolutions are called ``conv1``,
        ``block<n>_expand``, ``..._depthwise``, ``..._project`` and ``conv2``, additions
        ``block<n>_add``. Padding is TensorFlow's SAME.
    """
    net = Builder("mobilenet_v2", _INPUT)
    x = net.conv("conv1", "input", 32, 3, 2, RELU6, same=True)
    depth, index = 32, 0
    for expansion, channels, count, first_stride in _V2:
        for place in range(count):
            index += 1
            name, stride = f"block{index}", first_stride if place == 0 else 1
            y = x
            if expansion > 1:
                # A block's input is not rectified, so its whole variance comes through.
                y = net.conv(f"{name}_expand", y, expansion * depth, 1, 1, RELU6, power=1.0)
            y = net.depthwise(f"{name}_depthwise", y, stride, RELU6)
            y = net.conv(f"{name}_project", y, channels, 1)
            x = net.add(f"{name}_add", y, x, OPEN) if place else y
            depth = channels
    x = net.conv("conv2", x, 1280, 1, 1, RELU6, power=1.0)
    graph = net.finish(net.dense("dense", net.mean("mean", x), _CLASSES))
    return calibrated(graph) if quantized else graph
