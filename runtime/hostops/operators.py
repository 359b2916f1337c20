"""One kernel an operator: integers to the bit, or floats, or plain integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from vdla.module import Layer, TensorInfo

from .arithmetic import (
    Array,
    clipped,
    divide_half_away,
    exact_float,
    exactly,
    requantize,
    saturated,
)
from .elementwise import ELEMENTWISE
from .movement import MOVEMENT
from .normalization import lrn, softmax
from .operands import Kernel, Operand
from .rearranging import blocks_to_depth, unfolded
from .resizing import resize
from .windows import convolve, convolve_depthwise, spread, surrounded, taps, windows

__all__ = ["KERNELS", "Kernel", "Operand"]


def _weighted(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    """Convolutions and dense: sums of products, bias, scale."""
    params, weight = layer.params, inputs[1].array
    channel = weight.ndim - 1 if layer.op == "depthwise_conv2d" else 0
    terms = weight[0].size if channel == 0 else weight[..., 0].size
    if not params:
        total = _products(layer, *exactly(inputs[0].array, weight, terms), output)
        total = total.astype(np.int64) if weight.dtype.kind in "iu" else total
        bias = inputs[2].array if len(inputs) > 2 else total.dtype.type(0)
        return clipped(total + bias, layer.attrs["clip"], output.dtype)
    exact = exact_float(terms)
    along = [1] * weight.ndim
    along[channel] = -1
    centred = inputs[0].array.astype(exact) - exact(params["input_zero_point"])
    factors = weight.astype(exact) - params["weight_zero_point"].astype(exact).reshape(along)
    total = _products(layer, centred, factors, output)
    return _rescaled(total.astype(np.int64) + params["bias"], layer, output)


def _products(layer: Layer, data: Array, weight: Array, output: TensorInfo) -> Array:
    if layer.op == "dense":
        rows = data.reshape(-1, weight.shape[1]) @ weight.T
        return rows.reshape(-1, *output.shape[1:]) if output.shape[1:] else rows.reshape(-1)
    attrs = layer.attrs
    if layer.op == "conv_transpose2d":
        grown = spread(data, weight, attrs["strides"], attrs["dilation"], attrs["groups"])
        return _cropped(grown, attrs["padding"], output)
    sums = convolve if layer.op == "conv2d" else convolve_depthwise
    padded = surrounded(data, attrs["padding"], 0)
    return sums(padded, weight, attrs["strides"], attrs["dilation"])


def _cropped(grown: Array, padding: tuple[tuple[int, int], ...], output: TensorInfo) -> Array:
    """Return images without what `padding` names, with zeros where they end too early."""
    _, height, width, _ = output.shape
    top, left = (pair[0] for pair in padding)
    image = grown[:, top : top + height, left : left + width]
    missing = (height - image.shape[1], width - image.shape[2])
    return np.pad(image, ((0, 0), (0, missing[0]), (0, missing[1]), (0, 0)))


def _matmul(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    lhs, rhs = exactly(inputs[0].array, inputs[1].array, inputs[0].array.shape[-1])
    total = np.asarray(lhs @ rhs)
    total = total.astype(np.int64) if inputs[0].array.dtype.kind in "iu" else total
    return total.astype(output.dtype)


def _rescaled(wide: Array, layer: Layer, output: TensorInfo) -> Array:
    p = layer.params
    scaled = requantize(wide, p["multiplier"], p["right_shift"], p["rounding"])
    return saturated(scaled + p["output_zero_point"], p["clip"], output.dtype)


def _add(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    p = layer.params
    if not p:
        return clipped(inputs[0].array + inputs[1].array, layer.attrs["clip"], output.dtype)
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
    return clipped(reduce(np.maximum, taps(view)), attrs["clip"], output.dtype)


def _avg_pool2d(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    attrs, x = layer.attrs, inputs[0].array

    def sums(values: Array) -> Array:
        padded = surrounded(values, attrs["padding"], 0)
        return np.asarray(sum(taps(windows(padded, attrs["window"], attrs["strides"]))))

    if layer.params:
        total = sums(x.astype(np.int64))
        mean = divide_half_away(total, layer.params["counts"][:, :, np.newaxis].astype(np.int64))
    else:
        wide = x.astype(np.result_type(x.dtype, np.float32), copy=False)
        mean = sums(wide) / sums(np.ones((1, *x.shape[1:3], 1), wide.dtype))
    return saturated(mean, attrs["clip"], output.dtype)


def _mean(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    axes, keep, p = tuple(layer.attrs["axes"]), layer.attrs["keep_dims"], layer.params
    if not p:
        wide = np.result_type(output.dtype, np.float32)
        mean = inputs[0].array.mean(axis=axes, keepdims=keep, dtype=wide)
        return np.asarray(mean, output.dtype)
    total = inputs[0].array.sum(axis=axes, keepdims=keep, dtype=np.int64)
    return _rescaled(total - p["count"] * p["input_zero_point"], layer, output)


def _reduce_sum(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    x, axes = inputs[0].array, tuple(layer.attrs["axes"])
    # Integers wrap around in their own type; halves are added up as floats.
    wide = x.dtype if x.dtype.kind in "iu" else np.result_type(x.dtype, np.float32)
    total = x.sum(axis=axes, keepdims=layer.attrs["keep_dims"], dtype=wide)
    return np.asarray(total, output.dtype)


def _reduce_max(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    axes = tuple(layer.attrs["axes"])
    return np.asarray(inputs[0].array.max(axis=axes, keepdims=layer.attrs["keep_dims"]))


def _rescale(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    """clip, relu, relu6, and quantize between integer types."""
    if not layer.params:
        return clipped(inputs[0].array, layer.attrs["clip"], output.dtype)
    centred = inputs[0].array.astype(np.int64) - layer.params["input_zero_point"]
    return _rescaled(centred, layer, output)


def _leaky_relu(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    p = layer.params
    if not p:
        return ELEMENTWISE["leaky_relu"](layer, inputs, output)
    centred = inputs[0].array.astype(np.int64) - p["input_zero_point"]
    below = requantize(centred, p["below_multiplier"], p["below_right_shift"], p["rounding"])
    above = requantize(centred, p["multiplier"], p["right_shift"], p["rounding"])
    scaled = np.where(centred < 0, below, above)
    return saturated(scaled + p["output_zero_point"], p["clip"], output.dtype)


def _quantize(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    if layer.params:
        return _rescale(layer, inputs, output)
    limits = np.iinfo(output.dtype)
    scale, zero_point = _quantization(output)
    steps = inputs[0].array / scale.astype(np.float32)
    if layer.attrs["rounding"] == "even":
        whole = np.rint(steps)
    else:
        # C's round: half away from zero.
        whole = np.trunc(steps)
        whole += np.where(np.abs(steps - whole) >= 0.5, np.copysign(1, steps), 0)
    return saturated(whole + zero_point, (limits.min, limits.max), output.dtype)


def _dequantize(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    scale, zero_point = _quantization(inputs[0].info)
    centred = inputs[0].array.astype(np.int64) - zero_point
    return (centred * scale.astype(np.float64)).astype(output.dtype)


def _quantization(info: TensorInfo) -> tuple[Array, Array]:
    """Return scale and zero point, shaped to meet the axis they run along."""
    assert info.scale is not None
    assert info.zero_point is not None
    if info.axis is None:
        return info.scale[0], info.zero_point[0]
    shape = [-1 if axis == info.axis else 1 for axis in range(len(info.shape))]
    return info.scale.reshape(shape), info.zero_point.reshape(shape)


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
    **ELEMENTWISE,
    **MOVEMENT,
    "add": _add,
    "avg_pool2d": _avg_pool2d,
    "clip": _rescale,
    "conv2d": _weighted,
    "conv_transpose2d": _weighted,
    "dense": _weighted,
    "depthwise_conv2d": _weighted,
    "dequantize": _dequantize,
    "leaky_relu": _leaky_relu,
    "lrn": lrn,
    "matmul": _matmul,
    "max_pool2d": _max_pool2d,
    "mean": _mean,
    "quantize": _quantize,
    "reduce_max": _reduce_max,
    "reduce_sum": _reduce_sum,
    "relu": _rescale,
    "relu6": _rescale,
    "resize": resize,
    "softmax": softmax,
    "space_to_depth": _space_to_depth,
    "unfold": _unfold,
}
"""``(layer, inputs, output) -> array (N, ...)``, by operator."""
