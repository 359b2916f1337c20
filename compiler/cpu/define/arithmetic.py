"""Integers that stand for real numbers: rescaling to the bit as the host's kernels do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vdla.compiler.te import Expr, call, maximum, minimum, select
from vdla.compiler.te.expr import Const, ExprLike, Real

from .site import Array, Site

__all__ = [
    "Rescale",
    "clipped",
    "divide_half_away",
    "per_channel",
    "requantize",
    "rescaler",
    "round_half_away",
    "saturated",
]

Rescale = Callable[[Expr, ExprLike], Expr]
"""From a value and the index of its channel to an int32, or an int64 where that may not fit.

The value is an int32, or an int64 that may be a bit or two longer.
"""


def per_channel(site: Site, values: Array, name: str, dtype: str) -> Callable[[ExprLike], Expr]:
    """Return a function of a channel's index: a number where all channels have the same."""
    flat = np.asarray(values).reshape(-1)
    if (flat == flat[0]).all():
        number = int(flat[0])
        return lambda channel: Const(number, dtype)
    held = site.constant(flat, site.named(name))
    return lambda channel: held[channel].astype(dtype)


def rescaler(site: Site, multiplier: Any, right_shift: Any, rounding: str) -> Rescale:
    """Return the function that multiplies by ``multiplier / 2**(31 + right_shift)`` and rounds.

    Only the product has 64 bits; what follows it has 32 again, so that it fills twice the lanes.

    Parameters
    ----------
    multiplier, right_shift : int, or int32 (C,)
        A negative shift goes left.
    rounding : str
        ``single``: once, half up. ``double``: the high word of the doubled product half up, then
        the shift half away from zero.
    """
    m = per_channel(site, np.asarray(multiplier, np.int32), "multiplier", "int64")
    shift = np.asarray(right_shift, np.int64)
    if rounding == "single":
        by = per_channel(site, (shift + 31).astype(np.int32), "shift", "int64")
        half = per_channel(site, np.int64(1) << (shift + 30), "half", "int64")
        fits = bool((shift >= 0).all())

        def once(x: Expr, c: ExprLike) -> Expr:
            scaled = (x.astype("int64") * m(c) + half(c)) >> by(c)
            return scaled.wrap("int32") if fits and x.dtype == "int32" else scaled

        return once
    right, left = np.maximum(shift, 0), np.maximum(-shift, 0)
    raised = per_channel(site, left.astype(np.int32), "left", "int64")
    by = per_channel(site, right.astype(np.int32), "right", "int32")
    middle = per_channel(site, (((1 << right) - 1) >> 1).astype(np.int32), "middle", "int32")

    def twice(x: Expr, c: ExprLike) -> Expr:
        high = ((x.astype("int64") << raised(c)) * m(c) + (1 << 30)) >> 31
        if left.any() or x.dtype != "int32":
            high = minimum(high, (1 << 31) - 1)
        high = high.wrap("int32")
        if not right.any():
            return high
        # Half away from zero: up where what is cut off is more than half, or half of a positive.
        whole = high >> by(c)
        rest = high - (whole << by(c))
        threshold = middle(c) + high.lt(0).astype("int32")
        return whole + threshold.lt(rest).astype("int32")

    return twice


def requantize(
    site: Site, params: Any, zero_point: int, clip: tuple[float, float]
) -> Callable[..., Expr]:
    """Return the function that brings an int32 to the output's scale, zero point and dtype.

    Parameters
    ----------
    params : dataclass of `vdla.compiler.graph.params`
        Its ``multiplier``, ``right_shift`` and ``rounding``.
    """
    scale = rescaler(site, params.multiplier, params.right_shift, params.rounding)

    def finish(x: Expr, channel: ExprLike = 0) -> Expr:
        return saturated(scale(x, channel), zero_point, clip, site.dtype)

    return finish


def saturated(x: Expr, zero_point: int, clip: tuple[float, float], dtype: str) -> Expr:
    """Return an integer moved by a zero point, clipped and narrowed."""
    low, high = int(clip[0]) - zero_point, int(clip[1]) - zero_point
    return (minimum(maximum(x, low), high) + zero_point).wrap(dtype)


def clipped(x: Expr, clip: tuple[float, float], dtype: str) -> Expr:
    """Return a float, or a plain integer that wraps around, in a dtype's range and clipped."""
    low, high = clip
    if dtype.startswith("float"):
        x = x if low == -np.inf else maximum(x, Real(float(low), x.dtype))
        x = x if high == np.inf else minimum(x, Real(float(high), x.dtype))
        return x.astype(dtype)
    x, limits = x.wrap(dtype), np.iinfo(dtype)
    x = x if low <= limits.min else maximum(x, int(low))
    return x if high >= limits.max else minimum(x, int(high))


def divide_half_away(total: Expr, count: ExprLike) -> Expr:
    """Return ``total / count`` rounded to the nearest, ties away from zero; count is positive."""
    size = maximum(total, 0 - total)
    quotient = (size * 2 + count) // (Const(2, total.dtype) * count)
    return select(total.lt(0), 0 - quotient, quotient)


def round_half_away(x: Expr) -> Expr:
    """Return a float rounded to the nearest whole number, ties away from zero, as C's round."""
    size = call("abs", x)
    whole = call("floor", size)
    whole = whole + select((size - whole).ge(0.5), Real(1.0, x.dtype), Real(0.0, x.dtype))
    return select(x.lt(0), 0 - whole, whole)
