"""Pools: the greatest of a window, and its average without what is padding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vdla.compiler.graph.quantization import average_multiplier, pool_params
from vdla.compiler.graph.shapes import window_output
from vdla.compiler.te import Expr, Tensor, max_over, reduce_axis, sum_over
from vdla.compiler.te.expr import Const, Real
from vdla.compiler.te.tensor import IterVar
from vdla.errors import ModelError

from .arithmetic import clipped, divide_half_away, saturated
from .site import Array, Site, wide_float
from .windows import padded

__all__ = ["avg_pool2d", "max_pool2d"]


def max_pool2d(site: Site) -> Tensor:
    """What is padding never counts."""
    x, clip = site.input(0), site.attrs["clip"]
    lowest = -np.inf if x.dtype.startswith("float") else np.iinfo(x.dtype).min
    images, axes = padded(site, x, site.attrs["padding"], lowest), _window(site)
    free = _free(clip, site.dtype)

    def greatest(n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        return max_over(_element(site, images, n, h, w, c, axes), axes)

    maxima = site.compute(site.output.shape, greatest, "" if free else "maxima")
    if free:
        return maxima
    return site.compute(maxima.shape, lambda *i: clipped(maxima[i], clip, site.dtype))


def avg_pool2d(site: Site) -> Tensor:
    """Integers are divided exactly, halves away from zero."""
    x, clip, shape = site.input(0), site.attrs["clip"], site.output.shape
    images, axes = padded(site, x, site.attrs["padding"], 0), _window(site)
    kind = wide_float(x.dtype) if x.dtype.startswith("float") else "int32"

    def total(n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        return sum_over(_element(site, images, n, h, w, c, axes).astype(kind), axes)

    sums = site.compute(shape, total, "sums")
    if kind != "int32":
        count = _averaged(site, _counts(site).astype(kind))

        def mean(n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
            return clipped(sums[n, h, w, c] / count(h, w), clip, site.dtype)

        return site.compute(shape, mean)
    return site.compute(shape, _integer_means(site, sums))


def _integer_means(site: Site, sums: Tensor) -> Callable[[Expr, Expr, Expr, Expr], Expr]:
    """Return the element of integers averaged over their windows."""
    counts = pool_params(site.graph, site.node).counts
    try:
        factors = np.vectorize(lambda count: average_multiplier(int(count), site.dtype)[0])(counts)
    except ModelError:
        factors = None
    value = _averaged(site, (counts if factors is None else factors).astype(np.int32))

    def mean(n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        total, by = sums[n, h, w, c], value(h, w)
        if factors is None:
            quotient = divide_half_away(total, by)
        else:
            product = total.astype("int64") * by.astype("int64")
            quotient = ((product + (1 << 30)) >> 31).wrap("int32")
        return saturated(quotient, 0, site.attrs["clip"], site.dtype)

    return mean


def _averaged(site: Site, values: Array) -> Callable[[Expr, Expr], Expr]:
    """Return a function of a window's place: a number where all windows have the same."""
    first = values[0, 0]
    if (values == first).all():
        real = values.dtype.kind == "f"
        one: Expr = Real(float(first), str(values.dtype)) if real else Const(int(first))
        return lambda h, w: one
    held = site.constant(values, site.named("counts"))
    return lambda h, w: held[h, w]


def _counts(site: Site) -> Array:
    """Return the elements of each window that are not padding, (OH, OW)."""
    spans = []
    for a in range(2):
        size, window = site.tensors[0].shape[1 + a], site.attrs["window"][a]
        stride, pads = site.attrs["strides"][a], site.attrs["padding"][a]
        begin = np.arange(window_output(size, window, stride, pads, 1)) * stride - pads[0]
        spans.append(np.minimum(begin + window, size) - np.maximum(begin, 0))
    return np.outer(*spans)


def _window(site: Site) -> tuple[IterVar, IterVar]:
    rows, columns = site.attrs["window"]
    return reduce_axis(rows, "i"), reduce_axis(columns, "j")


def _element(
    site: Site, x: Tensor, n: Expr, h: Expr, w: Expr, c: Expr, axes: tuple[IterVar, IterVar]
) -> Expr:
    (sy, sx), (i, j) = site.attrs["strides"], axes
    return x[n, h * sy + i, w * sx + j, c]


def _free(clip: tuple[float, float], dtype: str) -> bool:
    """Whether a clip lets every value of a dtype be."""
    if dtype.startswith("float"):
        return clip == (-np.inf, np.inf)
    limits = np.iinfo(dtype)
    return clip[0] <= limits.min and clip[1] >= limits.max
