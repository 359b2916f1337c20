"""Real multipliers as 32-bit fixed point, to the bit as TFLite makes them."""

from __future__ import annotations

from math import frexp

import numpy as np
import numpy.typing as npt

from vdla.errors import ModelError

__all__ = ["ADD_LEFT_SHIFT", "add_multipliers", "quantize_multiplier", "quantize_multipliers"]

ADD_LEFT_SHIFT = 20
"""Bits of headroom that TFLite's 8-bit ADD gives both inputs before it rescales them."""


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Return ``(m, shift)`` with ``real ~ m / 2**31 * 2**shift``.

    m is 0 or in ``2**30 .. 2**31 - 1``; a positive shift goes left. The fraction is rounded half
    away from zero; below ``2**-32`` both are 0. Source: TFLite's ``QuantizeMultiplier``.

    Parameters
    ----------
    real : float
        At least 0.

    Raises
    ------
    ModelError
        `real` is negative, not finite, or 2**30 and more.
    """
    if not 0 <= real < 2.0**30:
        raise ModelError(
            f"A multiplier must lie in [0, 2**30), not {real}. Check the scales it is made of."
        )
    fraction, shift = frexp(real)
    # round() would go half to even; the product is positive and keeps all its bits here.
    m = int(fraction * 2**31 + 0.5)
    if m == 2**31:
        m //= 2
        shift += 1
    return (0, 0) if shift < -31 else (m, shift)


def quantize_multipliers(
    reals: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Apply `quantize_multiplier` to a vector (C,); return m and shift, int32 (C,) each."""
    pairs = [quantize_multiplier(float(real)) for real in reals]
    m, shift = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return m.astype(np.int32), shift.astype(np.int32)


def add_multipliers(
    lhs_scale: float, rhs_scale: float, output_scale: float
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Return ``(m, shift)`` for lhs, rhs and the sum of an 8-bit ADD.

    Inputs less their zero points are shifted left by `ADD_LEFT_SHIFT` and brought to twice the
    larger input scale, so that neither multiplier passes 1/2; the sum is brought to the output's
    scale. Source: TFLite's ``add.cc``.
    """
    twice = 2.0 * max(lhs_scale, rhs_scale)
    return (
        quantize_multiplier(lhs_scale / twice),
        quantize_multiplier(rhs_scale / twice),
        quantize_multiplier(twice / (2.0**ADD_LEFT_SHIFT * output_scale)),
    )
