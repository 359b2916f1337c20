"""Operators that weigh each element against its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vdla.module import Layer, TensorInfo

from .arithmetic import Array, saturated
from .operands import Operand

__all__ = ["lrn", "softmax"]


def softmax(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    """Exponentials of x over their sum along an axis."""
    x, axis, beta = inputs[0], layer.attrs["axis"], layer.attrs["beta"]
    peak = x.array.max(axis=axis, keepdims=True)
    if x.array.dtype.kind == "f":
        wide = np.result_type(x.array.dtype, np.float32)
        power = np.exp((x.array - peak).astype(wide, copy=False) * wide.type(beta))
        return np.asarray(power / power.sum(axis=axis, keepdims=True), output.dtype)
    # TFLite looks exponentials up by the distance from the peak, and adds them left to right.
    steps = peak.astype(np.int64) - x.array
    table = np.exp(np.arange(256, dtype=np.float32) * (-x.scale * np.float32(beta)))
    power = table[steps]
    total = np.add.accumulate(power, axis=axis, dtype=np.float32).take([-1], axis=axis)
    target, limits = Operand(output, power), np.iinfo(output.dtype)
    rounded = np.floor(power * (np.float32(1) / (total * target.scale)) + np.float32(0.5))
    shifted = rounded.astype(np.int64) + target.zero_point
    return saturated(shifted, (limits.min, limits.max), output.dtype)


def lrn(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    """Each element over a power of the squares of the channels around it."""
    attrs = layer.attrs
    x = inputs[0].array.astype(np.result_type(output.dtype, np.float32), copy=False)
    channels, size = x.shape[-1], attrs["size"]
    before = (size - 1) // 2
    margins = [(0, 0)] * (x.ndim - 1) + [(before, size - 1 - before)]
    squares = np.pad(x * x, margins)
    total = sum(squares[..., k : k + channels] for k in range(size))
    scale = x.dtype.type(attrs["bias"]) + x.dtype.type(attrs["alpha"] / size) * total
    return np.asarray(x / scale ** x.dtype.type(attrs["beta"]), output.dtype)
