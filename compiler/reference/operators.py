"""One function an operator, from TFLite's definition of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Node, Quant, Tensor
from vdla.errors import ModelError

from .arithmetic import divide_half_away, fixed_point, rescale, round_half_away
from .rearranging import space_to_depth, unfold
from .windows import correlate, correlate_depthwise, pad_image, taps

__all__ = ["OPERATORS", "Value"]

Array = npt.NDArray[Any]


class Value(NamedTuple):
    """An array with the tensor that it is a value of; the array may hold more images."""

    tensor: Tensor
    array: Array

    @property
    def quant(self) -> Quant:
        """Scale and zero point, which integer operators need."""
        if self.tensor.quant is None:
            raise ModelError(
                f"An integer operator needs scales and zero points; tensor {self.tensor.label} "
                "has none. Quantize the model."
            )
        return self.tensor.quant

    @property
    def scale(self) -> float:
        """The one scale."""
        return float(self.quant.scale[0])

    @property
    def centred(self) -> Array:
        """The integers less their zero point, int64."""
        return self.array.astype(np.int64) - self.quant.zero_point


def _store(x: Array, output: Tensor, clip: tuple[float, float] | None) -> Array:
    """Clip, to the dtype's range where `clip` is None, and narrow."""
    if clip is None:
        limits = np.iinfo(output.dtype)
        clip = (int(limits.min), int(limits.max))
    return np.clip(x, *clip).astype(output.dtype)


def _is_real(output: Tensor) -> bool:
    return output.dtype.kind == "f"


def _finish_sum(total: Array, node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    """Add the bias and bring a sum of products to the output's scale."""
    bias = inputs[2].array if len(inputs) > 2 else np.zeros(1, np.int32)
    if _is_real(output):
        return _store(total + bias.astype(total.dtype), output, node.attrs["clip"])
    accumulated = total.astype(np.int64) + bias
    if max(accumulated.max(), -1 - accumulated.min()) >= 1 << 31:
        raise ModelError(
            f"A sum of products must fit 32 bits; {node.name!r} reaches "
            f"{accumulated.min()}..{accumulated.max()}. Quantize its weights more coarsely."
        )
    data, weight, target = inputs[0], inputs[1], Value(output, total)
    if weight.quant.per_tensor and (node.op == "dense" or data.array.dtype == np.uint8):
        # This path of TFLite multiplies the scales as float32 numbers.
        product: Array = np.array(np.float32(data.scale) * np.float32(weight.scale), np.float64)
    else:
        product = np.float64(data.scale) * weight.quant.scale.astype(np.float64)
    m, shift = fixed_point(product / target.scale)
    scaled = rescale(accumulated, m, shift, node.attrs["rounding"])
    return _store(scaled + target.quant.zero_point, output, node.attrs["clip"])


def _operands(inputs: Sequence[Value], output: Tensor) -> tuple[Array, Array]:
    data, weight = inputs[:2]
    if _is_real(output):
        return data.array, weight.array
    # Weights' zero points run along the axis of their scales, or are one for all.
    shape = [1] * weight.array.ndim
    if weight.quant.axis is not None:
        shape[weight.quant.axis] = -1
    offset = weight.quant.zero_point.reshape(shape)
    return data.centred.astype(np.float64), weight.array.astype(np.float64) - offset


def _conv2d(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x, weight = _operands(inputs, output)
    x = pad_image(x, node.attrs["padding"], 0)
    total = correlate(x, weight, node.attrs["strides"], node.attrs["dilation"])
    return _finish_sum(total, node, inputs, output)


def _depthwise_conv2d(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x, weight = _operands(inputs, output)
    x = pad_image(x, node.attrs["padding"], 0)
    total = correlate_depthwise(x, weight, node.attrs["strides"], node.attrs["dilation"])
    return _finish_sum(total, node, inputs, output)


def _dense(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x, weight = _operands(inputs, output)
    total = x.reshape(-1, weight.shape[1]) @ weight.T
    shape = (*x.shape[:-1], -1) if node.attrs["keep_dims"] else (-1, weight.shape[0])
    return _finish_sum(total.reshape(shape), node, inputs, output)


def _add(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    lhs, rhs = inputs
    if _is_real(output):
        return _store(lhs.array + rhs.array, output, node.attrs["clip"])
    target = Value(output, lhs.array)
    twice = 2.0 * max(lhs.scale, rhs.scale)
    rounding = node.attrs["rounding"]

    def common(value: Value) -> Array:
        return rescale(value.centred << 20, *fixed_point(value.scale / twice), rounding)

    back = fixed_point(twice / ((1 << 20) * target.scale))
    total = rescale(common(lhs) + common(rhs), *back, rounding)
    return _store(total + target.quant.zero_point, output, node.attrs["clip"])


def _max_pool2d(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    attrs, x = node.attrs, inputs[0].array
    lowest = -np.inf if _is_real(output) else np.iinfo(output.dtype).min
    x = pad_image(x, attrs["padding"], lowest)
    views = [view for _, _, view in taps(x, attrs["window"], attrs["strides"])]
    return _store(np.maximum.reduce(views), output, attrs["clip"])


def _avg_pool2d(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    attrs, x = node.attrs, inputs[0].array

    def window_sums(image: Array) -> Array:
        image = pad_image(image, attrs["padding"], 0)
        views = (view for _, _, view in taps(image, attrs["window"], attrs["strides"]))
        total: Array = sum(views, start=np.zeros((), image.dtype))
        return total

    wide = np.float32 if _is_real(output) else np.int64
    total = window_sums(x.astype(wide))
    count = window_sums(np.ones((1, *x.shape[1:3], 1), wide))
    mean = total / count if _is_real(output) else divide_half_away(total, count)
    return _store(mean, output, attrs["clip"])


def _mean(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    data, axes, keep = inputs[0], node.attrs["axes"], node.attrs["keep_dims"]
    if _is_real(output):
        return np.asarray(data.array.mean(axis=axes, keepdims=keep, dtype=np.float32))
    total = data.centred.sum(axis=axes, keepdims=keep)
    count = int(np.prod([data.array.shape[axis] for axis in axes]))
    target = Value(output, total)
    m, shift = (int(v[0]) for v in fixed_point(data.scale / target.scale))
    # The division by count goes into the multiplier, with as many bits as stay in range.
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    scaled = rescale(total, (m << bits) // count, shift - bits, node.attrs["rounding"])
    return _store(scaled + target.quant.zero_point, output, None)


def _softmax(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x, beta = inputs[0], np.float32(node.attrs["beta"])
    if _is_real(output):
        power = np.exp((x.array - x.array.max(axis=-1, keepdims=True)) * beta)
        return np.asarray(power / power.sum(axis=-1, keepdims=True))
    target = Value(output, x.array)
    wide = x.array.astype(np.int64)
    below = wide.max(axis=-1, keepdims=True) - wide
    # float32 throughout, and the sum from left to right: the definition is a float table.
    table = np.exp(-np.float32(x.scale) * beta * np.arange(256, dtype=np.float32))
    power = table[below]
    total = np.cumsum(power, axis=-1, dtype=np.float32)[..., -1:]
    inverse = np.float32(1) / (total * np.float32(target.scale))
    rounded = np.floor(power * inverse + np.float32(0.5)).astype(np.int64)
    return _store(rounded + target.quant.zero_point, output, None)


def _relu(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    clip = node.attrs["clip"]
    if _is_real(output):
        return _store(inputs[0].array, output, clip)
    data, target = inputs[0], Value(output, inputs[0].array)
    # TFLite divides these two scales as float32 numbers, where quantize divides doubles.
    ratio = np.float32(data.scale) / np.float32(target.scale)
    return _store(_requantize(node, data, target, ratio), output, clip)


def _requantize(node: Node, data: Value, target: Value, ratio: npt.ArrayLike) -> Array:
    scaled = rescale(data.centred, *fixed_point(ratio), node.attrs["rounding"])
    return np.asarray(scaled + target.quant.zero_point)


def _quantize(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    data, target = inputs[0], Value(output, inputs[0].array)
    if data.array.dtype.kind in "iu":
        return _store(_requantize(node, data, target, data.scale / target.scale), output, None)
    steps = round_half_away(data.array / np.float32(target.scale))
    return _store(steps + target.quant.zero_point, output, None)


def _dequantize(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    data = inputs[0]
    return (data.centred * data.scale).astype(output.dtype)


def _pad(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    value = node.attrs["value"]
    return np.pad(inputs[0].array, node.attrs["paddings"], constant_values=value)


def _reshape(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    data = inputs[0]
    images = data.array.shape[0] // data.tensor.shape[0] if data.tensor.shape else 1
    if images == 1:
        return data.array.reshape(output.shape)
    if output.shape[0] != data.tensor.shape[0]:
        raise ModelError(
            f"A reshape must keep the batch to run several images; {node.name!r} makes "
            f"{output.shape} of {data.tensor.shape}. Run one image at a time."
        )
    return data.array.reshape(-1, *output.shape[1:])


def _space_to_depth(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    return space_to_depth(node, inputs[0].array)


def _unfold(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    return unfold(node, inputs[0].array)


OPERATORS: Mapping[str, Callable[[Node, Sequence[Value], Tensor], Array]] = {
    "add": _add,
    "avg_pool2d": _avg_pool2d,
    "conv2d": _conv2d,
    "dense": _dense,
    "depthwise_conv2d": _depthwise_conv2d,
    "dequantize": _dequantize,
    "max_pool2d": _max_pool2d,
    "mean": _mean,
    "pad": _pad,
    "quantize": _quantize,
    "relu": _relu,
    "relu6": _relu,
    "reshape": _reshape,
    "softmax": _softmax,
    "space_to_depth": _space_to_depth,
    "unfold": _unfold,
}
"""``(node, input values, output tensor) -> output array``, by operator."""
