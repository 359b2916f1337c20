"""TFLite's fixed-point arithmetic on int64 arrays that hold 32-bit values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "divide_by_power_of_two",
    "divide_half_away",
    "doubling_high_multiply",
    "fixed_point",
    "rescale",
    "round_half_away",
]

Int64 = npt.NDArray[np.int64]


def fixed_point(real: npt.ArrayLike) -> tuple[Int64, Int64]:
    """Write real multipliers as ``m * 2**(shift - 31)``.

    Parameters
    ----------
    real : float64 (C,)
        Each at least 0.

    Returns
    -------
    m, shift : int64 (C,)
        m is in ``2**30 .. 2**31 - 1``, the fraction rounded half away from zero. Where shift would
        be below -31, both are 0.
    """
    fraction, exponent = np.frexp(np.atleast_1d(np.asarray(real, np.float64)))
    m = np.floor(np.ldexp(fraction, 31) + 0.5).astype(np.int64)
    shift = exponent.astype(np.int64)
    full = m == 1 << 31
    m, shift = np.where(full, 1 << 30, m), np.where(full, shift + 1, shift)
    lost = shift < -31
    return np.where(lost, 0, m), np.where(lost, 0, shift)


def doubling_high_multiply(a: npt.ArrayLike, b: npt.ArrayLike) -> Int64:
    """Return the high word of ``2 * a * b``, rounded to nearest, ties towards plus infinity.

    The one product that does not fit, of two minima, saturates to ``2**31 - 1``.
    """
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    high: Int64 = np.minimum((product + (1 << 30)) >> 31, (1 << 31) - 1)
    return high


def divide_by_power_of_two(x: npt.ArrayLike, exponent: npt.ArrayLike) -> Int64:
    """Return ``x / 2**exponent``, rounded to nearest, ties away from zero; exponent 0..31."""
    x, exponent = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    quotient: Int64 = (x >> exponent) + ((x & mask) > threshold)
    return quotient


def divide_half_away(x: npt.ArrayLike, count: npt.ArrayLike) -> Int64:
    """Return ``x / count`` rounded to nearest, ties away from zero; count at least 1."""
    x, count = np.asarray(x, np.int64), np.asarray(count, np.int64)
    magnitude: Int64 = (np.abs(x) + count // 2) // count
    return np.where(x > 0, magnitude, -magnitude)


def rescale(x: Int64, m: npt.ArrayLike, shift: npt.ArrayLike, rounding: str) -> Int64:
    """Multiply by ``m * 2**(shift - 31)``.

    Parameters
    ----------
    x : int64 (..., C)
        Values of 32 bits.
    m, shift : int64 (C,) or scalar
        As `fixed_point` gives them.
    rounding : 'double' or 'single'
        'double' shifts left, multiplies high and divides by the power of two, rounding each time;
        'single' rounds the whole product once, ties towards plus infinity.
    """
    m, shift = np.asarray(m, np.int64), np.asarray(shift, np.int64)
    if rounding == "single":
        right = 31 - shift
        once: Int64 = (x * m + (np.int64(1) << (right - 1))) >> right
        return once
    left = x << np.maximum(shift, 0)
    return divide_by_power_of_two(doubling_high_multiply(left, m), np.maximum(-shift, 0))


def round_half_away(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Round to integers, ties away from zero, as C's ``round`` does."""
    whole: npt.NDArray[Any] = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0)
