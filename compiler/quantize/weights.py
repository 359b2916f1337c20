"""Integers for reals: activations' scales, weights and biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Quant

from .ranges import Range

__all__ = ["Weights", "as_integers", "as_reals", "quant_of", "quantize_bias", "quantize_weights"]

Array = npt.NDArray[Any]

_LARGEST = 127
_BIAS_LIMIT = 1 << 30
"""Largest bias: half of what 32 bits hold, the rest is for the products."""


def quant_of(limits: Range) -> Quant:
    """Return int8 scale and zero point of a range; a tensor of zeros gets scale 1."""
    low, high = limits
    scale = np.float32((high - low) / 255)
    if not scale > 0:
        return Quant(np.ones(1, np.float32), np.zeros(1, np.int64))
    zero_point = int(np.clip(np.rint(-128 - low / float(scale)), -128, 127))
    return Quant(np.array([scale]), np.array([zero_point]))


def as_integers(values: Array, quant: Quant) -> Array:
    """Quantize float values to int8, ties to even as ONNX's QuantizeLinear."""
    steps = np.rint(values / float(quant.scale[0]))
    levels: Array = np.clip(steps + int(quant.zero_point[0]), -128, 127).astype(np.int8)
    return levels


def as_reals(values: Array, quant: Quant) -> Array:
    """Return the float64 values that integers stand for."""
    shape = [1] * values.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    zero_point, scale = quant.zero_point.reshape(shape), quant.scale.reshape(shape)
    return (values.astype(np.float64) - zero_point) * scale.astype(np.float64)


class Weights(NamedTuple):
    """int8 weights, symmetric a channel."""

    data: npt.NDArray[np.int8]
    quant: Quant


def quantize_weights(weight: Array, axis: int, bias: Array, input_scale: float) -> Weights:
    """Quantize weights, the largest of each channel to 127.

    A channel whose bias would pass 2**30 at that scale gets a coarser one.

    Parameters
    ----------
    weight : float array
    axis : int
        The output channels'.
    bias : float array (C,)
    input_scale : float
    """
    others: Sequence[int] = [i for i in range(weight.ndim) if i != axis]
    peak = np.abs(weight.astype(np.float64)).max(axis=tuple(others))
    least = np.abs(bias.astype(np.float64)) / (_BIAS_LIMIT * input_scale)
    scale = np.maximum(peak / _LARGEST, least)
    scale = np.where(scale > np.finfo(np.float32).tiny, scale, 1.0).astype(np.float32)
    shape = [1] * weight.ndim
    shape[axis] = -1
    steps = np.rint(weight / scale.reshape(shape).astype(np.float64))
    data = np.clip(steps, -_LARGEST, _LARGEST).astype(np.int8)
    return Weights(data, Quant(scale, np.zeros(scale.size, np.int64), axis=axis))


def quantize_bias(bias: Array, weight: Quant, input_scale: float) -> tuple[Array, Quant]:
    """Return an int32 bias (C,) at the product of the scales, and that product."""
    step = weight.scale.astype(np.float64) * input_scale
    limits = np.iinfo(np.int32)
    data = np.clip(np.rint(bias / step), limits.min, limits.max).astype(np.int32)
    return data, Quant(step, np.zeros(step.size, np.int64), axis=0)
