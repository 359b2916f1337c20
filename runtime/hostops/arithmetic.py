"""Requantization on arrays of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "clipped",
    "divide_half_away",
    "exact_float",
    "exactly",
    "requantize",
    "saturated",
]

Array = npt.NDArray[Any]

_HALF = np.int64(1 << 30)


def requantize(x: Array, multiplier: Array, right_shift: Array, rounding: str) -> Array:
    """Return ``x * multiplier / 2**(31 + right_shift)``, rounded, as int64.

    Parameters
    ----------
    x : int64
        Values of 32 bits.
    multiplier, right_shift : int, or int32 along the last dimension of `x`
        A negative shift goes left.
    rounding : str
        ``single``: once, half up. ``double``: the high word of the doubled product half up, then
        the shift half away from zero.
    """
    m = np.asarray(multiplier, np.int64)
    shift = np.asarray(right_shift, np.int64)
    if rounding == "single":
        by = shift + 31
        return np.asarray((x * m + (np.int64(1) << (by - 1))) >> by)
    right = np.maximum(shift, 0)
    x = x << np.maximum(-shift, 0)
    high = np.minimum((x * m + _HALF) >> 31, np.int64((1 << 31) - 1))
    if not right.any():
        return np.asarray(high)
    # Half away from zero: add half, less one where negative, and round down; no half without shift.
    half = (np.int64(1) << right) >> 1
    return np.asarray((high + half - ((high < 0) & (right > 0))) >> right)


def divide_half_away(total: Array, count: Array) -> Array:
    """Return ``total / count`` rounded to the nearest, ties away from zero."""
    twice = 2 * np.abs(total) + count
    return np.asarray(np.sign(total) * (twice // (2 * count)))


def exact_float(terms: int) -> type[np.floating[Any]]:
    """Return the narrowest float that adds `terms` products of 9-bit integers exactly.

    Differences of two bytes reach 255 either way; float32 counts to 2**24 without a gap.
    """
    return np.float32 if terms * 255 * 255 < 1 << 24 else np.float64


def saturated(x: Array, clip: tuple[float, float], dtype: str) -> Array:
    """Return values clipped and narrowed."""
    return np.clip(x, clip[0], clip[1]).astype(dtype)


def clipped(x: Array, clip: tuple[float, float], dtype: str) -> Array:
    """Return floats or plain integers of the dtype, which wraps around, clipped.

    Integers of any width are taken modulo the dtype's.
    """
    x = np.asarray(x).astype(dtype, copy=False)
    if x.dtype.kind not in "iu":
        return np.asarray(np.clip(x, clip[0], clip[1]), dtype)
    limits = np.iinfo(x.dtype)
    low, high = max(limits.min, clip[0]), min(limits.max, clip[1])
    return x if (low, high) == (limits.min, limits.max) else np.clip(x, int(low), int(high))


def exactly(lhs: Array, rhs: Array, terms: int) -> tuple[Array, Array]:
    """Return the factors of a sum of products in a type that matrix products are best done in.

    Half floats become single; plain integers become floats where sums of so many terms stay exact,
    and int64 otherwise.
    """
    if lhs.dtype.kind not in "iu":
        wide = np.result_type(lhs.dtype, np.float32)
        return lhs.astype(wide, copy=False), rhs.astype(wide, copy=False)
    largest = [max(int(x.max()), -int(x.min())) for x in (lhs, rhs)]
    most = largest[0] * largest[1] * terms
    kind = np.float32 if most < 1 << 24 else np.float64 if most < 1 << 53 else np.int64
    return lhs.astype(kind), rhs.astype(kind)
