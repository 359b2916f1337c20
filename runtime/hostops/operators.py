"""One kernel an operator: integers to the bit, or float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from vdla.module import Layer, TensorInfo

from .arithmetic import Array, divide_half_away, exact_float, requantize, saturated
from .rearranging import blocks_to_depth, unfolded
from .windows import convolve, convolve_depthwise, surrounded, taps, windows

__all__ = ["KERNELS", "Kernel", "Operand"]


class Operand(NamedTuple):
    """An array and the tensor it is a value of; the array may hold several images."""

    info: TensorInfo
    array: Array

    @property
    def scale(self) -> np.float32:
        """The one scale, as TFLite keeps it."""
        assert self.info.scale is not None
        return np.float32(self.info.scale[0])

    @property
    def zero_point(self) -> int:
        """The one zero point."""
        assert self.info.zero_point is not None
        return int(self.info.zero_point[0])


Kernel = Callable[[Layer, Sequence[Operand], TensorInfo], Array]


def _weighted(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    """conv2d, depthwise_conv2d and dense: sums of products, bias, scale."""
    if not layer.params:
        total = _products(layer, inputs[0].array, inputs[1].array, output)
        bias = inputs[2].array if len(inputs) > 2 else np.float32(0)
        return saturated(total + bias, layer.attrs["clip"], output.dtype)
    params, weight = layer.params, inputs[1].array
    channel = weight.ndim - 1 if layer.op == "depthwise_conv2d" else 0
    terms = weight[0].size if channel == 0 else weight[..., 0].size
    exact = exact_float(terms)
    along = [1] * weight.ndim
    along[channel] = -1
    centred = inputs[0].array.astype(exact) - exact(params["input_zero_point"])
    factors = weight.astype(exact) - params["weight_zero_point"].astype(exact).reshape(along)
    total = _products(layer, centred, factors, output)
    return _rescaled(total.astype(np.int64) + params["bias"], layer, output)


def _products(layer: Layer, data: Array, weight: Array, output: TensorInfo) -> Array:
    if layer.op == "dense":
        return (data.reshape(-1, weight.shape[1]) @ weight.T).reshape(-1, *output.shape[1:])
    attrs = layer.attrs
    sums = convolve if layer.op == "conv2d" else convolve_depthwise
    padded = surrounded(data, attrs["padding"], 0)
    return sums(padded, weight, attrs["strides"], attrs["dilation"])


def _rescaled(wide: Array, layer: Layer, output: TensorInfo) -> Array:
    p = layer.params
    scaled = requantize(wide, p["multiplier"], p["right_shift"], p["rounding"])
    return saturated(scaled + p["output_zero_point"], p["clip"], output.dtype)


def _add(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    p = layer.params
    if not p:
        return saturated(inputs[0].array + inputs[1].array, layer.attrs["clip"], output.dtype)
    total = sum(
        requantize(
            (operand.array.astype(np.int64) - p["input_zero_point"][k]) << p["left_shift"],
            p["input_multiplier"][k],
            p["input_right_shift"][k],
            p["rounding"],
        )
        for k, operand in enumerate(inputs)
    )
    scaled = requantize(
        np.asarray(total), p["output_multiplier"], p["output_right_shift"], p["rounding"]
    )
    return saturated(scaled + p["output_zero_point"], p["clip"], output.dtype)


def _max_pool2d(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    attrs, x = layer.attrs, inputs[0].array
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    view = windows(surrounded(x, attrs["padding"], lowest), attrs["window"], attrs["strides"])
    return saturated(reduce(np.maximum, taps(view)), attrs["clip"], output.dtype)


def _avg_pool2d(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    attrs, x = layer.attrs, inputs[0].array

    def sums(values: Array) -> Array:
        padded = surrounded(values, attrs["padding"], 0)
        return np.asarray(sum(taps(windows(padded, attrs["window"], attrs["strides"]))))

    if layer.params:
        total = sums(x.astype(np.int64))
        mean = divide_half_away(total, layer.params["counts"][:, :, np.newaxis].astype(np.int64))
    else:
        mean = sums(x) / sums(np.ones((1, *x.shape[1:3], 1), x.dtype))
    return saturated(mean, attrs["clip"], output.dtype)


def _mean(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    axes, keep, p = tuple(layer.attrs["axes"]), layer.attrs["keep_dims"], layer.params
    if not p:
        return np.asarray(inputs[0].array.mean(axis=axes, keepdims=keep, dtype=np.float32))
    total = inputs[0].array.sum(axis=axes, keepdims=keep, dtype=np.int64)
    return _rescaled(total - p["count"] * p["input_zero_point"], layer, output)


def _rescale(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    """relu, relu6, and quantize between integer types."""
    if not layer.params:
        return saturated(inputs[0].array, layer.attrs["clip"], output.dtype)
    centred = inputs[0].array.astype(np.int64) - layer.params["input_zero_point"]
    return _rescaled(centred, layer, output)


def _quantize(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    if layer.params:
        return _rescale(layer, inputs, output)
    target, limits = Operand(output, inputs[0].array), np.iinfo(output.dtype)
    steps = inputs[0].array / target.scale
    # C's round: half away from zero, where numpy's goes to even.
    whole = np.trunc(steps)
    away = whole + np.where(np.abs(steps - whole) >= 0.5, np.copysign(1, steps), 0)
    return saturated(away + target.zero_point, (limits.min, limits.max), output.dtype)


def _dequantize(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    data = inputs[0]
    assert data.info.scale is not None
    centred = data.array.astype(np.int64) - data.zero_point
    return (centred * float(data.info.scale[0])).astype(output.dtype)


def _softmax(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    x, beta = inputs[0], np.float32(layer.attrs["beta"])
    peak = x.array.max(axis=-1, keepdims=True)
    if x.array.dtype.kind == "f":
        power = np.exp((x.array - peak) * beta)
        return np.asarray(power / power.sum(axis=-1, keepdims=True))
    # TFLite looks exponentials up by the distance from the peak, and adds them left to right.
    steps = peak.astype(np.int64) - x.array
    table = np.exp(np.arange(256, dtype=np.float32) * (-x.scale * beta))
    power = table[steps]
    total = np.add.accumulate(power, axis=-1, dtype=np.float32)[..., -1:]
    target, limits = Operand(output, power), np.iinfo(output.dtype)
    rounded = np.floor(power * (np.float32(1) / (total * target.scale)) + np.float32(0.5))
    shifted = rounded.astype(np.int64) + target.zero_point
    return saturated(shifted, (limits.min, limits.max), output.dtype)


def _pad(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    margins = layer.attrs["paddings"]
    return np.pad(inputs[0].array, margins, constant_values=layer.attrs["value"])


def _reshape(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    return inputs[0].array.reshape(-1, *output.shape[1:])


def _space_to_depth(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    attrs = layer.attrs
    return blocks_to_depth(inputs[0].array, attrs["block"], attrs["padding"], attrs["value"])


def _unfold(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    attrs = layer.attrs
    return unfolded(
        inputs[0].array,
        attrs["window"],
        attrs["strides"],
        attrs["dilation"],
        attrs["padding"],
        attrs["value"],
    )


KERNELS: Mapping[str, Kernel] = {
    "add": _add,
    "avg_pool2d": _avg_pool2d,
    "conv2d": _weighted,
    "dense": _weighted,
    "depthwise_conv2d": _weighted,
    "dequantize": _dequantize,
    "max_pool2d": _max_pool2d,
    "mean": _mean,
    "pad": _pad,
    "quantize": _quantize,
    "relu": _rescale,
    "relu6": _rescale,
    "reshape": _reshape,
    "softmax": _softmax,
    "space_to_depth": _space_to_depth,
    "unfold": _unfold,
}
"""``(layer, inputs, output) -> array (N, ...)``, by operator."""
