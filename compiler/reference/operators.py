"""One function an operator, from the definition of it: TFLite's where it has one, or ONNX's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Node, Tensor
from vdla.errors import ModelError

from .arithmetic import divide_half_away, fixed_point, rescale, round_half_away
from .elementwise import ELEMENTWISE
from .movement import MOVEMENT
from .rearranging import space_to_depth, unfold
from .resizing import resize
from .values import Array, Operator, Value, is_quantized, is_real, store, wide
from .windows import correlate, correlate_depthwise, pad_image, taps, transpose_correlate

__all__ = ["OPERATORS"]


def _finish_sum(total: Array, node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    """Add the bias and bring a sum of products to the output's scale."""
    bias = inputs[2].array if len(inputs) > 2 else np.zeros(1, np.int32)
    if not is_quantized(output):
        return store(total + bias.astype(total.dtype), output, node.attrs["clip"])
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
    return store(scaled + target.quant.zero_point, output, node.attrs["clip"])


def _operands(inputs: Sequence[Value], output: Tensor) -> tuple[Array, Array]:
    data, weight = inputs[:2]
    if is_real(output):
        return data.array, weight.array
    if not is_quantized(output):
        return wide(data.array), wide(weight.array)
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


def _conv_transpose2d(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    attrs = node.attrs
    x, weight = _operands(inputs, output)
    grown = transpose_correlate(x, weight, attrs["strides"], attrs["dilation"], attrs["groups"])
    # At the end come zeros before the margins are cropped.
    below, beside = attrs["output_padding"]
    grown = pad_image(grown, ((0, below), (0, beside)), 0)
    (top, _), (left, _) = attrs["padding"]
    _, height, width, _ = output.shape
    total = grown[:, top : top + height, left : left + width]
    return _finish_sum(total, node, inputs, output)


def _matmul(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    lhs, rhs = (wide(value.array) for value in inputs)
    return np.asarray(lhs @ rhs).astype(output.dtype)


def _dense(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x, weight = _operands(inputs, output)
    total = x.reshape(-1, weight.shape[1]) @ weight.T
    shape = (*x.shape[:-1], -1) if node.attrs["keep_dims"] else (-1, weight.shape[0])
    return _finish_sum(total.reshape(shape), node, inputs, output)


def _add(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    lhs, rhs = inputs
    if not is_quantized(output):
        return store(wide(lhs.array) + wide(rhs.array), output, node.attrs["clip"])
    target = Value(output, lhs.array)
    twice = 2.0 * max(lhs.scale, rhs.scale)
    rounding = node.attrs["rounding"]

    def common(value: Value) -> Array:
        return rescale(value.centred << 20, *fixed_point(value.scale / twice), rounding)

    back = fixed_point(twice / ((1 << 20) * target.scale))
    total = rescale(common(lhs) + common(rhs), *back, rounding)
    return store(total + target.quant.zero_point, output, node.attrs["clip"])


def _max_pool2d(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    attrs, x = node.attrs, inputs[0].array
    lowest = -np.inf if is_real(output) else np.iinfo(output.dtype).min
    x = pad_image(x, attrs["padding"], lowest)
    views = [view for _, _, view in taps(x, attrs["window"], attrs["strides"])]
    return store(np.maximum.reduce(views), output, attrs["clip"])


def _avg_pool2d(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    attrs, x = node.attrs, inputs[0].array

    def window_sums(image: Array) -> Array:
        image = pad_image(image, attrs["padding"], 0)
        views = (view for _, _, view in taps(image, attrs["window"], attrs["strides"]))
        total: Array = sum(views, start=np.zeros((), image.dtype))
        return total

    total = window_sums(wide(x))
    count = window_sums(np.ones((1, *x.shape[1:3], 1), total.dtype))
    mean = total / count if is_real(output) else divide_half_away(total, count)
    return store(mean, output, attrs["clip"])


def _mean(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    data, axes, keep = inputs[0], node.attrs["axes"], node.attrs["keep_dims"]
    if is_real(output):
        return np.asarray(wide(data.array).mean(axis=axes, keepdims=keep)).astype(output.dtype)
    total = data.centred.sum(axis=axes, keepdims=keep)
    count = int(np.prod([data.array.shape[axis] for axis in axes]))
    target = Value(output, total)
    m, shift = (int(v[0]) for v in fixed_point(data.scale / target.scale))
    # The division by count goes into the multiplier, with as many bits as stay in range.
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    scaled = rescale(total, (m << bits) // count, shift - bits, node.attrs["rounding"])
    return store(scaled + target.quant.zero_point, output, None)


def _reduce_sum(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x = wide(inputs[0].array)
    for axis in reversed(node.attrs["axes"]):
        x = np.add.reduce(x, axis=axis, keepdims=node.attrs["keep_dims"])
    return np.asarray(x).astype(output.dtype)


def _reduce_max(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x = inputs[0].array
    for axis in reversed(node.attrs["axes"]):
        x = np.maximum.reduce(x, axis=axis, keepdims=node.attrs["keep_dims"])
    return np.asarray(x)


def _lrn(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x, attrs = wide(inputs[0].array), node.attrs
    channels, size = x.shape[-1], attrs["size"]
    result = np.zeros_like(x)
    for c in range(channels):
        first, last = max(0, c - (size - 1) // 2), min(channels - 1, c + size // 2)
        squares = np.square(x[..., first : last + 1]).sum(axis=-1)
        result[..., c] = (
            x[..., c] / (attrs["bias"] + attrs["alpha"] / size * squares) ** attrs["beta"]
        )
    return result.astype(output.dtype)


def _softmax(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x, axis, beta = inputs[0], node.attrs["axis"], np.float32(node.attrs["beta"])
    if is_real(output):
        real = wide(x.array)
        power = np.exp((real - real.max(axis=axis, keepdims=True)) * beta)
        return np.asarray(power / power.sum(axis=axis, keepdims=True)).astype(output.dtype)
    target = Value(output, x.array)
    whole = np.moveaxis(x.array.astype(np.int64), axis, -1)
    below = whole.max(axis=-1, keepdims=True) - whole
    # float32 throughout, and the sum from left to right: the definition is a float table.
    table = np.exp(-np.float32(x.scale) * beta * np.arange(256, dtype=np.float32))
    power = table[below]
    total = np.cumsum(power, axis=-1, dtype=np.float32)[..., -1:]
    inverse = np.float32(1) / (total * np.float32(target.scale))
    rounded = np.floor(power * inverse + np.float32(0.5)).astype(np.int64)
    return store(np.moveaxis(rounded, -1, axis) + target.quant.zero_point, output, None)


def _relu(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    clip = node.attrs["clip"]
    if not is_quantized(output):
        return store(inputs[0].array, output, clip)
    data, target = inputs[0], Value(output, inputs[0].array)
    # TFLite divides these two scales as float32 numbers, where quantize divides doubles.
    ratio = np.float32(data.scale) / np.float32(target.scale)
    return store(_requantize(node, data, target, ratio), output, clip)


def _requantize(node: Node, data: Value, target: Value, ratio: npt.ArrayLike) -> Array:
    scaled = rescale(data.centred, *fixed_point(ratio), node.attrs["rounding"])
    return np.asarray(scaled + target.quant.zero_point)


def _leaky_relu(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    if not is_quantized(output):
        return ELEMENTWISE["leaky_relu"](node, inputs, output)
    data, target = inputs[0], Value(output, inputs[0].array)
    slope = np.where(data.centred < 0, node.attrs["alpha"], 1.0)
    scaled = rescale(data.centred, *fixed_point(data.scale / target.scale * slope), "single")
    return store(scaled + target.quant.zero_point, output, None)


def _quantize(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    data, target = inputs[0], Value(output, inputs[0].array)
    if data.array.dtype.kind in "iu":
        return store(_requantize(node, data, target, data.scale / target.scale), output, None)
    scale, zero_point = _along_axis(output)
    steps = data.array / scale.astype(np.float32)
    whole = np.rint(steps) if node.attrs["rounding"] == "even" else round_half_away(steps)
    return store(whole + zero_point, output, None)


def _dequantize(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    scale, zero_point = _along_axis(inputs[0].tensor)
    centred = inputs[0].array.astype(np.int64) - zero_point
    return (centred * scale.astype(np.float64)).astype(output.dtype)


def _along_axis(tensor: Tensor) -> tuple[Array, Array]:
    """Return scales and zero points that broadcast to a tensor."""
    quant = Value(tensor, np.zeros(0)).quant
    if quant.axis is None:
        return quant.scale[0], quant.zero_point[0]
    later = (1,) * (len(tensor.shape) - quant.axis - 1)
    return quant.scale.reshape(-1, *later), quant.zero_point.reshape(-1, *later)


def _space_to_depth(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    return space_to_depth(node, inputs[0].array)


def _unfold(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    return unfold(node, inputs[0].array)


OPERATORS: Mapping[str, Operator] = {
    **ELEMENTWISE,
    **MOVEMENT,
    "add": _add,
    "avg_pool2d": _avg_pool2d,
    "clip": _relu,
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose2d,
    "dense": _dense,
    "depthwise_conv2d": _depthwise_conv2d,
    "dequantize": _dequantize,
    "leaky_relu": _leaky_relu,
    "lrn": _lrn,
    "matmul": _matmul,
    "max_pool2d": _max_pool2d,
    "mean": _mean,
    "quantize": _quantize,
    "reduce_max": _reduce_max,
    "reduce_sum": _reduce_sum,
    "relu": _relu,
    "relu6": _relu,
    "resize": resize,
    "softmax": _softmax,
    "space_to_depth": _space_to_depth,
    "unfold": _unfold,
}
"""``(node, input values, output tensor) -> output array``, by operator."""
