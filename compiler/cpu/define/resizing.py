"""ONNX's Resize: sampling axis by axis, with places and weights known when compiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vdla.compiler.te import Expr, Tensor, reduce_axis, select, sum_over
from vdla.compiler.te.expr import Const, ExprLike, Real, as_expr

from .indexing import chosen
from .site import Array, Site, wide_float

__all__ = ["resize"]

_FEW = 4
"""Elements that are weighed in one expression; of more, a sum is a loop."""


def resize(site: Site) -> Tensor:
    """Sample at every output place of each axis in turn."""
    x, attrs = site.input(0), site.attrs
    kind = x.dtype if attrs["mode"] == "nearest" else wide_float(x.dtype)
    outside: dict[int, Array] = {}
    steps = []
    for axis, size in enumerate(x.shape):
        places = _places(axis, size, attrs)
        lost = (places < 0) | (places > size - 1)
        if attrs["coordinates"] == "tf_crop_and_resize" and lost.any():
            outside[axis] = lost
        if not np.array_equal(places, np.arange(size)):
            steps.append((axis, places))
    for count, (axis, places) in enumerate(steps):
        last = count == len(steps) - 1 and not outside and kind == site.dtype
        x = _sampled(site, x, axis, places, kind, "" if last else f"axis{axis}")
    if steps and not outside and kind == site.dtype:
        return x

    def element(*index: ExprLike) -> Expr:
        value = x[index].astype(site.dtype)
        real = site.dtype.startswith("float")
        fill = attrs["extrapolation"]
        blank = Real(float(fill), site.dtype) if real else Const(int(fill), site.dtype)
        for axis, lost in outside.items():
            value = select(chosen(lost.tolist(), index[axis]).eq(1), blank, value)
        return value

    return site.compute(site.output.shape, element)


def _sampled(site: Site, x: Tensor, axis: int, places: Array, kind: str, part: str) -> Tensor:
    """Return a tensor sampled anew along one axis."""
    attrs, size = site.attrs, x.shape[axis]
    shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])

    def at(index: tuple[ExprLike, ...], place: ExprLike) -> Expr:
        return x[(*index[:axis], place, *index[axis + 1 :])].astype(kind)

    if attrs["mode"] == "nearest":
        nearest = np.clip(_NEAREST[attrs["nearest"]](places), 0, size - 1).astype(int).tolist()
        return site.compute(shape, lambda *i: at(i, chosen(nearest, i[axis])), part)
    taps, weights = _weights(places, float(attrs["scales"][axis]), attrs)
    if attrs["exclude_outside"]:
        weights = np.where((taps < 0) | (taps > size - 1), 0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    taps = np.clip(taps, 0, size - 1)
    used = (weights != 0).any(axis=0)
    taps, weights = taps[:, used], weights[:, used]
    held = site.constant(weights.astype(kind), site.named(f"weights{axis}"))
    count = taps.shape[1]
    flat = taps.reshape(-1).tolist()

    def few(*i: ExprLike) -> Expr:
        tables = [taps[:, k].tolist() for k in range(count)]
        terms = [at(i, chosen(t, i[axis])) * held[i[axis], k] for k, t in enumerate(tables)]
        return sum(terms[1:], terms[0])

    def many(*i: ExprLike) -> Expr:
        step = reduce_axis(count, "k")
        tap = chosen(flat, as_expr(i[axis]) * count + step)
        return sum_over(at(i, tap) * held[i[axis], step], step)

    return site.compute(shape, few if count <= _FEW else many, part)


def _places(axis: int, size: int, attrs: Mapping[str, Any]) -> Array:
    """Return where in the input each output index stands, float64 (out,)."""
    out, kind = int(attrs["size"][axis]), attrs["coordinates"]
    scale = float(attrs["scales"][axis])
    index = np.arange(out, dtype=np.float64)
    if out == size and scale == 1 and kind != "tf_crop_and_resize":
        return index
    width = scale * size  # a fraction where the output has fewer: ONNX reckons with it
    if kind == "tf_crop_and_resize":
        begin, end = (float(edge) * (size - 1) for edge in attrs["roi"][axis])
        if width == 1:
            return np.full(out, (begin + end) / 2)
        return begin + index * ((end - begin) / (width - 1))
    if kind == "align_corners":
        return index * ((size - 1) / (width - 1)) if width != 1 else np.zeros(out)
    if kind == "asymmetric":
        return index / scale
    if kind == "tf_half_pixel_for_nn":
        return (index + 0.5) / scale
    if kind == "pytorch_half_pixel" and out == 1:
        return np.zeros(1)
    offset = size / 2 * (1 - out / width) if kind == "half_pixel_symmetric" else 0.0
    return (index + 0.5) / scale - 0.5 + offset


_NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda places: np.floor(places + 0.5),
    "round_prefer_floor": lambda places: np.ceil(places - 0.5),
}


def _weights(places: Array, scale: float, attrs: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the elements that each place reads, int (out, taps), and their weights."""
    reach = 1 if attrs["mode"] == "linear" else 2
    squeeze = min(scale, 1.0) if attrs["antialias"] else 1.0
    first = int(np.floor(-reach / squeeze)) + 1
    base = np.ceil(places).astype(int) - 1  # a place on an element reads it as the right one
    offsets = np.arange(first, 2 - first)
    distance = np.abs(offsets - (places - base)[:, np.newaxis]) * squeeze
    weights = np.maximum(1 - distance, 0) if reach == 1 else _cubic(distance, attrs["cubic_a"])
    if attrs["antialias"]:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return base[:, np.newaxis] + offsets, weights


def _cubic(x: Array, a: float) -> Array:
    """Return Keys' cubic convolution kernel at distance x."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
