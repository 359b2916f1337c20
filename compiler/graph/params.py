"""Integer parameters of quantized operators, as plain values.

``requantize(x, multiplier, right_shift)`` is ``x * multiplier / 2**(31 + right_shift)`` rounded as
the operator's `rounding` says; a negative right shift goes left (the real multiplier is 1 or more).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "AddParams",
    "ConcatParams",
    "ConvParams",
    "Int32",
    "LeakyParams",
    "MeanParams",
    "PoolParams",
    "RescaleParams",
]

Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class ConvParams:
    """conv2d, depthwise_conv2d or dense with C outputs.

    ``q = clip(requantize(sum (x - input_zero_point) * (w - weight_zero_point) + bias, multiplier,
    right_shift) + output_zero_point)``. The zero points are not folded into `bias`.

    Attributes
    ----------
    bias, multiplier, right_shift : int32 (C,)
    input_zero_point, output_zero_point : int
    weight_zero_point : int32 (C,)
        0 for int8 weights.
    clip : (int, int)
    rounding : 'double' or 'single'
    """

    bias: Int32
    multiplier: Int32
    right_shift: Int32
    input_zero_point: int
    weight_zero_point: Int32
    output_zero_point: int
    clip: tuple[int, int]
    rounding: str


@dataclass(frozen=True)
class AddParams:
    """add.

    ``x_i = requantize((q_i - input_zero_point_i) << left_shift, input_multiplier_i,
    input_right_shift_i)``, then ``q = clip(requantize(x_0 + x_1, output_multiplier,
    output_right_shift) + output_zero_point)``.
    """

    left_shift: int
    input_multiplier: tuple[int, int]
    input_right_shift: tuple[int, int]
    input_zero_point: tuple[int, int]
    output_multiplier: int
    output_right_shift: int
    output_zero_point: int
    clip: tuple[int, int]
    rounding: str


@dataclass(frozen=True)
class ConcatParams:
    """concat of N inputs.

    Of each input k that is not `unchanged`: ``q' = clip(requantize(q - input_zero_point_k,
    input_multiplier_k, input_right_shift_k) + output_zero_point)``.

    Attributes
    ----------
    unchanged : tuple of bool
        Whether scale and zero point are the output's already.
    """

    unchanged: tuple[bool, ...]
    input_multiplier: tuple[int, ...]
    input_right_shift: tuple[int, ...]
    input_zero_point: tuple[int, ...]
    output_zero_point: int
    clip: tuple[int, int]
    rounding: str


@dataclass(frozen=True, eq=False)
class PoolParams:
    """max_pool2d or avg_pool2d; input and output share scale and zero point.

    Attributes
    ----------
    pad_value : int
        What padding holds so that it never counts: the dtype's minimum for a maximum, 0 for a sum.
    counts : int32 (OH, OW)
        Elements of each window that are not padding; an average divides by this.
    clip : (int, int)
    """

    pad_value: int
    counts: Int32
    clip: tuple[int, int]


@dataclass(frozen=True)
class LeakyParams:
    """leaky_relu, with a multiplier for either side of zero.

    ``q' = clip(requantize(q - input_zero_point, m, s) + output_zero_point)``, with `multiplier` and
    `right_shift` from the zero point on, `below_multiplier` and `below_right_shift` below it.
    """

    multiplier: int
    right_shift: int
    below_multiplier: int
    below_right_shift: int
    input_zero_point: int
    output_zero_point: int
    clip: tuple[int, int]
    rounding: str


@dataclass(frozen=True)
class MeanParams:
    """mean.

    ``q = clip(requantize(sum q_i - count * input_zero_point, multiplier, right_shift) +
    output_zero_point)``; the division by `count` is inside the multiplier.
    """

    count: int
    multiplier: int
    right_shift: int
    input_zero_point: int
    output_zero_point: int
    clip: tuple[int, int]
    rounding: str


@dataclass(frozen=True)
class RescaleParams:
    """relu, relu6, or quantize between integer types.

    ``q' = clip(requantize(q - input_zero_point, multiplier, right_shift) + output_zero_point)``.
    """

    multiplier: int
    right_shift: int
    input_zero_point: int
    output_zero_point: int
    clip: tuple[int, int]
    rounding: str
