"""Graphs of one operator of floats, and what they compute by definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.one_operator import network
from vdla.compiler.graph import Graph

__all__ = ["CASES", "HALVES", "MATRICES", "Case", "convolution", "dense", "depthwise", "matmul"]

Array = np.ndarray
FREE, RELU = (-np.inf, np.inf), (0.0, np.inf)
UNIT = 2.0**-24
"""Half the distance from 1 to the next float32: the relative error of one rounding."""
HALF_UNIT, HALF_LEAST = 2.0**-11, 2.0**-25
"""The same of float16, and the error of rounding to one of the numbers below 2^-14."""


@dataclass(frozen=True)
class Case:
    """A graph, its inputs, and the exact output with how far float32 may be from it.

    The bound is that of a sum of n products in any order, ``(n + 2) * u`` times the sum of their
    absolute values, bias included (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
    Of halves, which are added up in float32, it is that and one rounding to a half.
    """

    graph: Graph
    inputs: tuple[Array, ...]
    exact: Array
    bound: Array

    def check(self, found: Array) -> None:
        assert found.dtype == self.inputs[0].dtype
        assert found.shape == self.exact.shape
        bound = self.bound
        if found.dtype == np.float16:
            bound = bound + HALF_UNIT * (np.abs(self.exact) + bound) + HALF_LEAST
        assert (np.abs(found - self.exact) <= bound).all()
        assert np.ptp(found) > 0 or found.size == 1  # not all zeros


def _drawn(dtype: str, *shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(9)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def _clipped(total: Array, clip: tuple[float, float]) -> Array:
    return np.clip(total, *clip)


def dense(
    rows: int,
    depth: int,
    outputs: int,
    clip: tuple[float, float] = RELU,
    dtype: str = "float32",
) -> Case:
    """``relu(x @ w.T + b)``."""
    x, w, b = _drawn(dtype, (rows, depth), (outputs, depth), (outputs,))
    attrs = {"clip": clip, "rounding": "double", "keep_dims": False}
    graph = network("dense", [x, w, b], attrs, constant=[1, 2])
    wide = [a.astype(np.float64) for a in (x, w, b)]
    exact = _clipped(wide[0] @ wide[1].T + wide[2], clip)
    sizes = np.abs(wide[0]) @ np.abs(wide[1]).T + np.abs(wide[2])
    return Case(graph, (x,), exact, (depth + 2) * UNIT * sizes)


def matmul(left: tuple[int, ...], right: tuple[int, ...], dtype: str = "float32") -> Case:
    """``a @ b``, both computed."""
    a, b = _drawn(dtype, left, right)
    graph = network("matmul", [a, b])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    sizes = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    return Case(graph, (a, b), exact, (left[-1] + 2) * UNIT * sizes)


def convolution(
    image: tuple[int, int, int, int],
    outputs: int,
    window: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    *,
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    bias: bool = True,
    clip: tuple[float, float] = RELU,
    dtype: str = "float32",
) -> Case:
    """A convolution with bias and ReLU, summed up tap by tap."""
    depth = image[3] // groups
    x, w, b = _drawn(dtype, image, (outputs, *window, depth), (outputs,))
    attrs = {
        "clip": clip,
        "dilation": dilation,
        "padding": padding,
        "rounding": "double",
        "strides": strides,
    }
    inputs = [x, w, b] if bias else [x, w]
    graph = network("conv2d", inputs, attrs, constant=list(range(1, len(inputs))))
    _, height, width, _ = graph.tensors["out"].shape
    sums = []
    wide = [a.astype(np.float64) for a in (x, w, b)]
    for a, v, c in (wide, list(map(np.abs, wide))):
        full = np.pad(a, ((0, 0), *padding, (0, 0)))
        total = np.zeros(graph.tensors["out"].shape) + (c if bias else 0)
        for i, j in np.ndindex(*window):
            rows = slice(i * dilation[0], i * dilation[0] + (height - 1) * strides[0] + 1)
            columns = slice(j * dilation[1], j * dilation[1] + (width - 1) * strides[1] + 1)
            part = full[:, rows, columns][:, :: strides[0], :: strides[1]]
            for g in range(groups):
                own = slice(g * outputs // groups, (g + 1) * outputs // groups)
                taken = part[..., g * depth : (g + 1) * depth]
                total[..., own] += taken @ v[own, i, j].T
        sums.append(total)
    terms = window[0] * window[1] * depth
    return Case(graph, (x,), _clipped(sums[0], clip), (terms + 2) * UNIT * sums[1])


def depthwise(
    image: tuple[int, int, int, int],
    window: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    *,
    multiplier: int = 1,
    dilation: tuple[int, int] = (1, 1),
) -> Case:
    """A depthwise convolution with bias and ReLU: one in as many groups as there are channels."""
    outputs = image[3] * multiplier
    grouped = convolution(
        image, outputs, window, strides, padding, dilation=dilation, groups=image[3]
    )
    x, (w, b) = grouped.inputs[0], _drawn("float32", image, (outputs, *window, 1), (outputs,))[1:]
    (node,) = grouped.graph.nodes
    own = w.transpose(3, 1, 2, 0)
    graph = network("depthwise_conv2d", [x, own, b], dict(node.attrs), constant=[1, 2])
    return Case(graph, grouped.inputs, grouped.exact, grouped.bound)


SAME = ((1, 1), (1, 1))
CASES: dict[str, Callable[[], Case]] = {
    "dense 1x1x1": lambda: dense(1, 1, 1, FREE),
    "dense 7x13x5": lambda: dense(7, 13, 5),
    "dense 65x33x129": lambda: dense(65, 33, 129),
    "dense 64x32x96": lambda: dense(64, 32, 96, FREE),
    "dense 1x1000x10": lambda: dense(1, 1000, 10, FREE),
    "matmul 1x1x1": lambda: matmul((1, 1), (1, 1)),
    "matmul 7x13x5": lambda: matmul((7, 13), (13, 5)),
    "matmul 65x33x129": lambda: matmul((65, 33), (33, 129)),
    "matmul 64x64x64": lambda: matmul((64, 64), (64, 64)),
    "matmul large": lambda: matmul((1027, 20), (20, 1036)),
    "matmul tall": lambda: matmul((2050, 17), (17, 254)),
    "matmul batch": lambda: matmul((2, 5, 16), (16, 19)),
    "matmul broadcast": lambda: matmul((3, 1, 2, 4), (2, 4, 5)),
    "conv 1x1 image": lambda: convolution((1, 1, 1, 1), 1, (1, 1), clip=FREE),
    "conv 1x1 images": lambda: convolution((4, 1, 1, 7), 13, (3, 3), padding=SAME),
    "conv 1x1 window": lambda: convolution((2, 5, 7, 19), 21, (1, 1), (2, 1)),
    "conv 3x3": lambda: convolution((1, 14, 13, 17), 33, (3, 3), padding=SAME, bias=False),
    "conv 3x3 divided": lambda: convolution((1, 8, 8, 16), 32, (3, 3), padding=SAME, clip=FREE),
    "conv 20 channels": lambda: convolution((2, 9, 6, 20), 30, (3, 3), padding=SAME),
    "conv large": lambda: convolution((9, 29, 31, 12), 68, (3, 3), padding=SAME),
    "conv many": lambda: convolution((16, 13, 12, 8), 32, (1, 3), padding=((0, 0), (1, 1))),
    "conv stride 2": lambda: convolution((4, 9, 11, 5), 19, (3, 3), (2, 2), SAME),
    "conv stride 3": lambda: convolution((2, 20, 21, 3), 10, (7, 7), (3, 3), ((3, 2), (1, 3))),
    "conv uneven": lambda: convolution((3, 6, 10, 6), 5, (2, 5), (1, 3), ((0, 1), (4, 0))),
    "conv dilated": lambda: convolution(
        (1, 12, 12, 4), 6, (3, 2), padding=((0, 2), (2, 0)), dilation=(2, 3)
    ),
    "conv wide": lambda: convolution((1, 11, 23, 3), 5, (11, 11), (3, 3), ((5, 5), (5, 5))),
    "conv grouped": lambda: convolution((1, 6, 6, 8), 12, (3, 3), padding=SAME, groups=4),
    "conv grouped, 40 each": lambda: convolution((1, 5, 6, 12), 80, (3, 3), groups=2),
    "conv grouped, 4 each": lambda: convolution((2, 9, 7, 64), 64, (3, 3), padding=SAME, groups=16),
    "depthwise": lambda: depthwise((1, 12, 17, 40), (3, 3), padding=SAME),
    "depthwise stride 2": lambda: depthwise((2, 9, 12, 5), (3, 3), (2, 2), ((0, 1), (1, 0))),
    "depthwise twice": lambda: depthwise((1, 6, 5, 12), (5, 3), multiplier=2, dilation=(1, 2)),
}
"""By name."""
HALVES: dict[str, Callable[[], Case]] = {
    "dense 7x13x5": lambda: dense(7, 13, 5, dtype="float16"),
    "dense 64x32x96": lambda: dense(64, 32, 96, FREE, "float16"),
    "matmul 65x33x129": lambda: matmul((65, 33), (33, 129), "float16"),
    "matmul batch": lambda: matmul((2, 5, 16), (16, 19), "float16"),
    "conv 3x3": lambda: convolution(
        (1, 14, 13, 17), 33, (3, 3), padding=SAME, bias=False, dtype="float16"
    ),
    "conv stride 3": lambda: convolution(
        (2, 20, 21, 3), 10, (7, 7), (3, 3), ((3, 2), (1, 3)), dtype="float16"
    ),
}
"""The same of half floats."""
MATRICES: dict[str, Callable[[], Case]] = {
    **{name: case for name, case in HALVES.items() if name != "dense 7x13x5"},
    "dense 64x96x128": lambda: dense(64, 96, 128, FREE, "float16"),
    "dense 8x1x8": lambda: dense(8, 1, 8, dtype="float16"),
    "matmul 129x100x70": lambda: matmul((129, 100), (100, 70), "float16"),
    "matmul batches": lambda: matmul((3, 2, 20, 16), (3, 2, 16, 40), "float16"),
    "conv 1x1 window": lambda: convolution((2, 5, 7, 19), 21, (1, 1), (2, 1), dtype="float16"),
    "conv 3x3 divided": lambda: convolution(
        (1, 8, 8, 32), 64, (3, 3), padding=SAME, clip=FREE, dtype="float16"
    ),
    "conv 7x7 image": lambda: convolution((1, 7, 7, 16), 24, (3, 3), padding=SAME, dtype="float16"),
    "conv dilated": lambda: convolution(
        (2, 9, 8, 4), 9, (3, 2), padding=((0, 2), (2, 0)), dilation=(2, 3), dtype="float16"
    ),
}
"""Products of half floats that are large enough for warps."""
