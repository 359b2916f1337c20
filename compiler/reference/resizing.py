"""Resize, from ONNX's definition of it: one output place after the other, axis by axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

import numpy as np

from vdla.compiler.graph import Node, Tensor

from .values import Array, Value

__all__ = ["resize"]

Attrs = Mapping[str, Any]


def resize(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    """Multiply each axis by the matrix of what its output places read."""
    x, attrs = inputs[0].array, node.attrs
    blank = []
    for axis, size in enumerate(inputs[0].tensor.shape):
        places = [_place(k, axis, size, attrs) for k in range(attrs["size"][axis])]
        if attrs["coordinates"] == "tf_crop_and_resize":
            blank.append((axis, [not 0 <= place <= size - 1 for place in places]))
        if places == list(range(size)):
            continue
        if attrs["mode"] == "nearest":
            x = x.take([_nearest(place, size, attrs["nearest"]) for place in places], axis=axis)
        else:
            matrix = np.array([_row(place, axis, size, attrs) for place in places])
            x = np.moveaxis(np.tensordot(matrix, x.astype(np.float64), (1, axis)), 0, axis)
    for axis, outside in blank:
        x[(slice(None),) * axis + (np.array(outside),)] = attrs["extrapolation"]
    return x.astype(output.dtype)


def _place(k: int, axis: int, size: int, attrs: Attrs) -> float:
    """Return where in the input output index k stands."""
    out, scale, kind = attrs["size"][axis], attrs["scales"][axis], attrs["coordinates"]
    if scale == 1 and out == size and kind != "tf_crop_and_resize":
        return k
    if kind == "align_corners":
        return 0.0 if scale * size == 1 else k * (size - 1) / (scale * size - 1)
    if kind == "asymmetric":
        return float(k / scale)
    if kind == "tf_half_pixel_for_nn":
        return float((k + 0.5) / scale)
    if kind == "tf_crop_and_resize":
        begin, end = attrs["roi"][axis]
        if scale * size == 1:
            return float(0.5 * (begin + end) * (size - 1))
        return float(begin * (size - 1) + k * (end - begin) * (size - 1) / (scale * size - 1))
    if kind == "pytorch_half_pixel" and out == 1:
        return 0.0
    offset = 0.0
    if kind == "half_pixel_symmetric":
        offset = size / 2 * (1 - out / (scale * size))
    return float(offset + (k + 0.5) / scale - 0.5)


def _nearest(place: float, size: int, rule: str) -> int:
    rounded = {
        "ceil": ceil(place),
        "floor": floor(place),
        "round_prefer_ceil": floor(place + 0.5),
        "round_prefer_floor": ceil(place - 0.5),
    }[rule]
    return min(max(rounded, 0), size - 1)


def _row(place: float, axis: int, size: int, attrs: Attrs) -> list[float]:
    """Return the weight of every input element in an output place."""
    a, linear = attrs["cubic_a"], attrs["mode"] == "linear"

    def kernel(t: float) -> float:
        t = abs(t)
        if linear:
            return max(0.0, 1 - t)
        if t <= 1:
            return float((a + 2) * t**3 - (a + 3) * t**2 + 1)
        return float(a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a) if t < 2 else 0.0

    stretch = min(attrs["scales"][axis], 1.0) if attrs["antialias"] else 1.0
    reach = ceil((1 if linear else 2) / stretch) + 1
    row = [0.0] * size
    for index in range(floor(place) - reach, floor(place) + reach + 2):
        outside = not 0 <= index < size
        if not (outside and attrs["exclude_outside"]):
            row[min(max(index, 0), size - 1)] += kernel((index - place) * stretch)
    total = sum(row)
    return [w / total for w in row] if attrs["antialias"] or attrs["exclude_outside"] else row
