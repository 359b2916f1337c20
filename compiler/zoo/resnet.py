"""ResNet v1 for ImageNet: two of basic blocks, one of bottlenecks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vdla.compiler.graph import Graph

from .builder import RELU, Builder, calibrated

__all__ = ["resnet18", "resnet34", "resnet50"]

_RESNET18_RANGES: dict[str, tuple[float, float]] = {
    "conv1": (0.00, 6.97),
    "layer1_0_conv1": (0.00, 8.09),
    "layer1_0_conv2": (-10.70, 8.41),
    "layer1_0_add": (0.00, 12.53),
    "layer1_1_conv1": (0.00, 11.97),
    "layer1_1_conv2": (-11.26, 9.82),
    "layer1_1_add": (0.00, 14.35),
    "layer2_0_conv1": (0.00, 24.88),
    "layer2_0_conv2": (-21.92, 23.93),
    "layer2_0_downsample": (-18.91, 19.82),
    "layer2_0_add": (0.00, 24.52),
    "layer2_1_conv1": (0.00, 25.35),
    "layer2_1_conv2": (-24.35, 29.18),
    "layer2_1_add": (0.00, 45.75),
    "layer3_0_conv1": (0.00, 44.60),
    "layer3_0_conv2": (-47.74, 73.83),
    "layer3_0_downsample": (-44.37, 42.47),
    "layer3_0_add": (0.00, 81.17),
    "layer3_1_conv1": (0.00, 69.23),
    "layer3_1_conv2": (-66.70, 84.98),
    "layer3_1_add": (0.00, 112.13),
    "layer4_0_conv1": (0.00, 121.11),
    "layer4_0_conv2": (-114.63, 116.11),
    "layer4_0_downsample": (-128.78, 107.54),
    "layer4_0_add": (0.00, 168.53),
    "layer4_1_conv1": (0.00, 151.66),
    "layer4_1_conv2": (-146.75, 144.40),
    "layer4_1_add": (0.00, 202.12),
    "mean": (0.00, 131.87),
    "dense": (-193.04, 178.35),
}
"""Range of each node's output: percentiles 0.02 and 99.98 of the float network on `sample_image`.

A test works them out again.
"""

_INPUT = (1, 224, 224, 3)
_CLASSES = 1000
_STAGES = (64, 128, 256, 512)
_EXPANSION = 4


def resnet18(quantized: bool = True) -> Graph:
    """Return ResNet-18 v1 for 224 x 224 x 3 images, its weights drawn with seed 0.

    Batch normalization is folded; weights and biases are drawn, not trained, so the outputs mean
    nothing but every layer's work and arithmetic is the true one. The bits come from PCG64's raw
    stream, which numpy keeps stable.

    Parameters
    ----------
    quantized : bool
        int8 activations per tensor and int8 weights per channel, as TFLite quantizes them; or the
        float32 network that they stand for.

    Returns
    -------
    Graph
        ``input`` (1, 224, 224, 3) to ``dense.out`` (1, 1000). Convolutions are called ``conv1``,
        ``layer<stage>_<block>_conv1``, ``..._conv2`` and ``..._downsample``, additions
        ``..._add``.
    """
    net = Builder("resnet18", _INPUT, _RESNET18_RANGES if quantized else None)
    return _basic(net, (2, 2, 2, 2))


def resnet34(quantized: bool = True) -> Graph:
    """Return ResNet-34 v1, as `resnet18`."""
    graph = _basic(Builder("resnet34", _INPUT), (3, 4, 6, 3))
    return calibrated(graph) if quantized else graph


def resnet50(quantized: bool = True) -> Graph:
    """Return ResNet-50 v1.5, as `resnet18`; its blocks have a third convolution.

    The stride of a stage is at the 3 x 3 convolution, as in torchvision and MLPerf, not at the
    1 x 1 before it, as in the paper.
    """
    net = Builder("resnet50", _INPUT)
    x = _stem(net)
    for name, channels, stride, first in _blocks((3, 4, 6, 3)):
        y = net.conv(f"{name}_conv1", x, channels, 1, 1, RELU)
        y = net.conv(f"{name}_conv2", y, channels, 3, stride, RELU)
        y = net.conv(f"{name}_conv3", y, _EXPANSION * channels, 1)
        if first:
            x = net.conv(f"{name}_downsample", x, _EXPANSION * channels, 1, stride)
        x = net.add(f"{name}_add", y, x)
    graph = _classifier(net, x)
    return calibrated(graph) if quantized else graph


def _basic(net: Builder, counts: Sequence[int]) -> Graph:
    x = _stem(net)
    for name, channels, stride, _ in _blocks(counts):
        y = net.conv(f"{name}_conv1", x, channels, 3, stride, RELU)
        y = net.conv(f"{name}_conv2", y, channels, 3)
        if stride > 1:
            x = net.conv(f"{name}_downsample", x, channels, 1, stride)
        x = net.add(f"{name}_add", y, x)
    return _classifier(net, x)


def _stem(net: Builder) -> str:
    x = net.conv("conv1", "input", 64, 7, 2, RELU)
    return net.max_pool("maxpool", x, window=3, stride=2, pad=1)


def _classifier(net: Builder, x: str) -> Graph:
    return net.finish(net.dense("dense", net.mean("mean", x), _CLASSES))


def _blocks(counts: Sequence[int]) -> Iterator[tuple[str, int, int, bool]]:
    """Yield name, channels, stride, and whether it is its stage's first, block by block."""
    for stage, (channels, count) in enumerate(zip(_STAGES, counts, strict=True), start=1):
        for block in range(count):
            stride = 2 if stage > 1 and block == 0 else 1
            yield f"layer{stage}_{block}", channels, stride, block == 0
