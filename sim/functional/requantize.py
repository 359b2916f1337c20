"""RQ: bias, requantization, zero point and clip, to the bit as TFLite's reference kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa import RQ_PACK, clip_range

__all__ = ["requantize", "scale_double", "scale_single"]

_Int64 = NDArray[np.int64]
_HIGH = (1 << 31) - 1


def requantize(
    values: NDArray[np.int32],
    bias: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    packed: NDArray[np.int32],
    clip: int,
) -> NDArray[np.int32]:
    """Return requantized values; the parameters broadcast against them.

    The bias is added in 32 bits that wrap. From there on the result is exact up to the clip;
    where nothing is clipped, its low 32 bits are kept.

    Parameters
    ----------
    packed : ndarray of int32
        Shift, zero point and rounding mode of each lane, as `vdla.isa.RQ_PACK` lays them out.
    clip : int
        The instruction's immediate: least in its low byte, greatest in its high byte, signed.
        A least above the greatest clips nothing.
    """
    field = {bits.name: _field(packed, bits.lsb, bits.width, bits.signed) for bits in RQ_PACK}
    biased = (values + bias).astype(np.int64)
    wide = multiplier.astype(np.int64)
    single = field["single"] == 1
    # One mode is the rule; computing both doubles the time.
    scaled = scale_single(biased, wide, field["shift"]) if single.any() else biased
    if not single.all():
        scaled = np.where(single, scaled, scale_double(biased, wide, field["shift"]))
    result = scaled + field["zero_point"]
    low, high = clip_range(clip)
    return (np.clip(result, low, high) if low <= high else result).astype(np.int32)


def scale_single(x: _Int64, m: _Int64, s: _Int64) -> _Int64:
    """Return ``floor((x * m + 2**(30 + s)) / 2**(31 + s))``: one rounding, half upwards."""
    return x * m + (1 << 30 + s) >> 31 + s


def scale_double(x: _Int64, m: _Int64, s: _Int64) -> _Int64:
    """Return a saturating rounding doubling high multiply, then a rounding division by ``2**s``.

    The multiply rounds ``x * m / 2**31`` to the nearest, half upwards, saturated where both
    are -2^31; the division rounds to the nearest, half away from zero.
    """
    high = np.minimum(x * m + (1 << 30) >> 31, _HIGH)
    half = np.where(s > 0, 1 << np.maximum(s, 1) - 1, 0)
    magnitude = np.abs(high) + half >> s
    scaled: _Int64 = np.where(high >= 0, magnitude, -magnitude)
    return scaled


def _field(packed: NDArray[np.int32], lsb: int, width: int, signed: bool) -> _Int64:
    value = packed.astype(np.int64) >> lsb & ((1 << width) - 1)
    return value - ((value >> (width - 1)) << width) if signed else value
