"""ONNX's Resize: sampling axis by axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vdla.module import Layer, TensorInfo

from .arithmetic import Array
from .operands import Operand

__all__ = ["resize"]

Attrs = Mapping[str, Any]


def resize(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    """Sample NHWC, or whatever else, at every output place of each axis in turn."""
    x, attrs = inputs[0].array, layer.attrs
    narrow = x.dtype
    if attrs["mode"] != "nearest" and narrow == np.float16:
        x = x.astype(np.float32)
    outside = []
    for axis, size in enumerate(inputs[0].info.shape):
        places = _places(axis, size, attrs)
        lost = (places < 0) | (places > size - 1)
        if attrs["coordinates"] == "tf_crop_and_resize" and lost.any():
            outside.append((axis, lost))
        if not np.array_equal(places, np.arange(size)):
            x = _sampled(x, axis, places, attrs)
    for axis, lost in outside:
        x[(slice(None),) * axis + (lost,)] = attrs["extrapolation"]
    return x.astype(narrow, copy=False)


def _places(axis: int, size: int, attrs: Attrs) -> Array:
    """Return where in the input each output index stands, float64 (out,)."""
    out, kind = int(attrs["size"][axis]), attrs["coordinates"]
    scale = float(attrs["scales"][axis])
    index = np.arange(out, dtype=np.float64)
    if out == size and scale == 1 and kind != "tf_crop_and_resize":
        return index
    width = scale * size  # a fraction where the output has fewer: ONNX reckons with it
    if kind == "asymmetric":
        return index / scale
    if kind == "align_corners":
        return index * ((size - 1) / (width - 1)) if width != 1 else np.zeros(out)
    if kind == "tf_crop_and_resize":
        begin, end = map(float, attrs["roi"][axis])
        if width == 1:
            return np.full(out, (begin + end) * (size - 1) / 2)
        return begin * (size - 1) + index * ((end - begin) * (size - 1) / (width - 1))
    if kind == "tf_half_pixel_for_nn":
        return (index + 0.5) / scale
    if kind == "pytorch_half_pixel" and out == 1:
        return np.zeros(1)
    places = (index + 0.5) / scale - 0.5
    if kind == "half_pixel_symmetric":
        places += size / 2 * (1 - out / width)
    return places


def _sampled(x: Array, axis: int, places: Array, attrs: Attrs) -> Array:
    last = x.shape[axis] - 1
    if attrs["mode"] == "nearest":
        index = np.clip(_NEAREST[attrs["nearest"]](places), 0, last)
        return np.asarray(np.take(x, index.astype(np.intp), axis=axis))
    taps, weights = _weights(places, attrs["scales"][axis], attrs)
    if attrs["exclude_outside"]:
        weights = np.where((taps < 0) | (taps > last), 0, weights)
        weights /= weights.sum(axis=1, keepdims=True)
    taps = np.clip(taps, 0, last)
    along = [1] * x.ndim
    along[axis] = -1
    total = np.zeros((), x.dtype)
    for tap, weight in zip(taps.T, weights.T.astype(x.dtype), strict=True):
        total = total + np.take(x, tap, axis=axis) * weight.reshape(along)
    return total


_NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda places: np.floor(places + 0.5),
    "round_prefer_floor": lambda places: np.ceil(places - 0.5),
}


def _weights(places: Array, scale: float, attrs: Attrs) -> tuple[Array, Array]:
    """Return the elements that each place reads, int (out, taps), and their weights."""
    reach = 1 if attrs["mode"] == "linear" else 2
    squeeze = min(scale, 1.0) if attrs["antialias"] else 1.0
    first = int(np.floor(-reach / squeeze)) + 1
    base = np.ceil(places).astype(np.intp) - 1  # a place on an element reads it as the right one
    offsets = np.arange(first, 2 - first)
    distance = np.abs(offsets - (places - base)[:, np.newaxis]) * squeeze
    weights = np.maximum(1 - distance, 0) if reach == 1 else _cubic(distance, attrs["cubic_a"])
    if attrs["antialias"]:
        weights /= weights.sum(axis=1, keepdims=True)
    return base[:, np.newaxis] + offsets, weights


def _cubic(x: Array, a: float) -> Array:
    """Return Keys' cubic convolution kernel at distance x."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
