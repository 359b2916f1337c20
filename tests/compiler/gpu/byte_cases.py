"""Graphs of one operator of 8-bit integers that has a template, and what the interpreter makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.one_operator import network, quant
from vdla.compiler.graph import Graph, Quant
from vdla.compiler.reference import Interpreter

__all__ = ["CASES", "MATRICES", "ByteCase", "convolution", "dense", "matmul", "plain"]

Array = np.ndarray
Pads = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class ByteCase:
    """A graph, its inputs, and the exact output."""

    graph: Graph
    inputs: tuple[Array, ...]

    @property
    def exact(self) -> Array:
        given = dict(zip(self.graph.inputs, self.inputs, strict=True))
        found = Interpreter(self.graph).run(given)["out"]
        assert np.ptp(found.astype(np.int64)) > 0 or found.size == 1  # not all the same
        return found


def _drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Return numbers of the whole range, its ends among them where there is room."""
    limits = np.iinfo(dtype)
    drawn = np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)
    drawn.reshape(-1)[::7] = limits.max
    drawn.reshape(-1)[1::9] = limits.min
    return drawn


def matmul(left: tuple[int, ...], right: tuple[int, ...], dtype: str = "int8") -> ByteCase:
    """``a @ b``, both computed, which wraps around."""
    a, b = _drawn(left, dtype, 1), _drawn(right, dtype, 2)
    return ByteCase(network("matmul", [a, b]), (a, b))


def _scales(channels: int, dtype: str, zero: int) -> Quant:
    """Return scales of weights: one for each channel, or one with a zero point inside the range."""
    if dtype == "uint8":
        return quant(0.03, zero)
    steps = np.random.default_rng(3).uniform(0.01, 0.05, channels).astype(np.float32)
    return Quant(steps, np.zeros(channels, np.int64), 0)


def dense(
    rows: int, depth: int, outputs: int, dtype: str = "int8", weight_zero: int = 99
) -> ByteCase:
    """A dense layer with bias, requantized."""
    attrs = {"keep_dims": False}
    return _weighted("dense", (rows, depth), (outputs, depth), attrs, dtype, weight_zero)


def convolution(
    image: tuple[int, int, int, int],
    outputs: int,
    window: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    padding: Pads = ((0, 0), (0, 0)),
    *,
    dilation: tuple[int, int] = (1, 1),
    dtype: str = "int8",
    weight_zero: int = 99,
) -> ByteCase:
    """A convolution with bias, requantized."""
    attrs = {"dilation": dilation, "padding": padding, "strides": strides}
    weight = (outputs, *window, image[3])
    return _weighted("conv2d", image, weight, attrs, dtype, weight_zero)


def plain(image: tuple[int, ...], weight: tuple[int, ...], dtype: str = "int8") -> ByteCase:
    """A convolution or a dense layer of integers that stand for themselves, both computed."""
    x, w = _drawn(image, dtype, 4), _drawn(weight, dtype, 5)
    op, attrs = ("dense", {"keep_dims": False}) if len(image) == 2 else ("conv2d", dict(PLAIN))
    graph = network(op, [x, w], {**attrs, "clip": FREE, "rounding": "double"})
    return ByteCase(graph, (x, w))


def _weighted(
    op: str,
    image: tuple[int, ...],
    weight: tuple[int, ...],
    attrs: dict[str, object],
    dtype: str,
    weight_zero: int,
) -> ByteCase:
    x, w = _drawn(image, dtype, 4), _drawn(weight, dtype, 5)
    if dtype == "uint8":  # most of them fit 8 bits less their zero point, as a network's do
        w = np.where(np.random.default_rng(6).random(weight) < 0.9, w // 2 + 40, w).astype(dtype)
    bias = np.random.default_rng(7).integers(-3000, 3000, weight[0]).astype(np.int32)
    zero = 3 if dtype == "int8" else 131
    terms = int(np.prod(weight)) // weight[0]
    spread = 73 * 73 * np.sqrt(terms) * 0.02 * 0.03 / 50
    quants = [
        quant(0.02, zero),
        _scales(weight[0], dtype, weight_zero),
        None,
        quant(spread, zero - 8),
    ]
    clip = (zero - 100, zero + 90)
    own = {**attrs, "clip": clip, "rounding": "single" if op == "dense" else "double"}
    graph = network(op, [x, w, bias], own, constant=[1, 2], quants=quants, dtype=dtype)
    return ByteCase(graph, (x,))


SAME = ((1, 1), (1, 1))
FREE = (-np.inf, np.inf)
PLAIN = {"dilation": (1, 1), "padding": SAME, "strides": (1, 1)}
CASES: dict[str, Callable[[], ByteCase]] = {
    "int8 matmul 1x1x1": lambda: matmul((1, 1), (1, 1)),
    "int8 matmul 65x70x33": lambda: matmul((65, 70), (70, 33)),
    "int8 matmul 64x128x64": lambda: matmul((64, 128), (128, 64)),
    "uint8 matmul batch": lambda: matmul((2, 5, 17), (17, 19), "uint8"),
    "int8 matmul broadcast": lambda: matmul((3, 1, 2, 5), (2, 5, 7)),
    "int8 dense 7x13x5": lambda: dense(7, 13, 5),
    "int8 dense 64x128x96": lambda: dense(64, 128, 96),
    "uint8 dense 33x75x34": lambda: dense(33, 75, 34, "uint8"),
    "uint8 dense of 255": lambda: dense(3, 9, 6, "uint8", weight_zero=0),
    "int8 conv 1x1 image": lambda: convolution((1, 1, 1, 3), 2, (1, 1)),
    "int8 conv 3x3": lambda: convolution((1, 14, 13, 17), 33, (3, 3), padding=SAME),
    "int8 conv 3x3 divided": lambda: convolution((1, 8, 8, 64), 32, (3, 3), padding=SAME),
    "int8 conv stride 3": lambda: convolution((2, 20, 21, 3), 10, (7, 7), (3, 3), ((3, 2), (1, 3))),
    "int8 conv dilated": lambda: convolution(
        (1, 12, 12, 5), 6, (3, 2), padding=((0, 2), (2, 0)), dilation=(2, 3)
    ),
    "uint8 conv 1x1 window": lambda: convolution((2, 5, 7, 38), 21, (1, 1), (2, 1), dtype="uint8"),
    "uint8 conv 3x3": lambda: convolution(
        (1, 9, 11, 5), 19, (3, 3), (2, 2), ((0, 1), (1, 0)), dtype="uint8"
    ),
}
"""By name."""
MATRICES: dict[str, Callable[[], ByteCase]] = {
    **{
        name: CASES[name]
        for name in (
            "int8 matmul 65x70x33",
            "int8 matmul 64x128x64",
            "uint8 matmul batch",
            "int8 dense 64x128x96",
            "uint8 dense 33x75x34",
            "int8 conv 3x3",
            "int8 conv 3x3 divided",
            "int8 conv stride 3",
            "uint8 conv 1x1 window",
            "uint8 conv 3x3",
        )
    },
    "int8 matmul batches": lambda: matmul((3, 2, 20, 16), (3, 2, 16, 40)),
    "int8 dense 8x1x8": lambda: dense(8, 1, 8),
    "int8 dense 17x40x9": lambda: dense(17, 40, 9),
    "int8 dense, both computed": lambda: plain((19, 48), (33, 48)),
    "uint8 dense 64x128x96": lambda: dense(64, 128, 96, "uint8", 128),
    "int8 conv 1x1 images": lambda: convolution((11, 1, 1, 17), 13, (3, 3), padding=SAME),
    "int8 conv 20 channels": lambda: convolution((1, 7, 9, 20), 24, (3, 3), padding=SAME),
    "int8 conv 24 channels": lambda: convolution((1, 7, 9, 24), 24, (3, 3), padding=SAME),
    "int8 conv batch 4": lambda: convolution((4, 11, 10, 17), 21, (3, 3), (3, 3), SAME),
    "int8 conv dilated": lambda: convolution(
        (1, 12, 12, 5), 9, (3, 2), padding=((0, 2), (2, 0)), dilation=(2, 3)
    ),
    "int8 conv, both computed": lambda: plain((2, 5, 6, 7), (9, 3, 3, 7)),
    "uint8 conv, both computed": lambda: plain((1, 5, 6, 16), (8, 3, 3, 16), "uint8"),
    "uint8 conv 16 channels": lambda: convolution(
        (1, 9, 11, 16), 33, (3, 3), padding=SAME, dtype="uint8", weight_zero=128
    ),
}
"""Products that are large enough for warps."""
