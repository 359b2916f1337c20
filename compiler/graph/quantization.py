"""The integer parameters that lowering needs, derived from the scales of a node's tensors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vdla.errors import ModelError

from .fixedpoint import ADD_LEFT_SHIFT, add_multipliers, quantize_multiplier, quantize_multipliers
from .graph import Graph, Node
from .params import (
    AddParams,
    ConcatParams,
    ConvParams,
    Int32,
    LeakyParams,
    MeanParams,
    PoolParams,
    RescaleParams,
)
from .shapes import window_output
from .tensor import Quant, Tensor

__all__ = [
    "AddParams",
    "ConcatParams",
    "ConvParams",
    "LeakyParams",
    "MeanParams",
    "PoolParams",
    "RescaleParams",
    "add_params",
    "average_multiplier",
    "concat_params",
    "conv_params",
    "leaky_params",
    "mean_params",
    "pool_params",
    "rescale_params",
    "tensor_quant",
]


def tensor_quant(tensor: Tensor) -> Quant:
    """Return the quantization of a tensor.

    Raises
    ------
    ModelError
        It has none.
    """
    if tensor.quant is None:
        raise ModelError(
            f"An integer operator needs scales and zero points; tensor {tensor.label} "
            f"({tensor.dtype}) has none. Quantize the model."
        )
    return tensor.quant


def conv_params(graph: Graph, node: Node) -> ConvParams:
    """Return the integer parameters of a convolution or dense node.

    Raises
    ------
    ModelError
        A tensor has no quantization, or the multiplier passes 2**30.
    """
    _require(node, "conv2d", "conv_transpose2d", "dense", "depthwise_conv2d")
    data, weight = graph.input_tensors(node)[:2]
    output = graph.output_tensor(node)
    channels = output.shape[-1]
    x, w, y = (tensor_quant(t) for t in (data, weight, output))
    if w.per_tensor and (node.op == "dense" or data.dtype == np.uint8):
        # TFLite's older path multiplies the two scales as float32.
        product = (x.scale.astype(np.float32) * w.scale.astype(np.float32)).astype(np.float64)
    else:
        product = x.scale.astype(np.float64) * w.scale.astype(np.float64)
    real = np.broadcast_to(product / y.scale.astype(np.float64), (channels,))
    multiplier, shift = quantize_multipliers(real)
    bias = np.zeros(channels, np.int32)
    if len(node.inputs) > 2:
        constant = graph.tensors[node.inputs[2]].data
        if constant is None or constant.dtype != np.int32:
            raise ModelError(
                f"A bias must be an int32 constant; that of {node.name!r} is not. "
                "Quantize the model with constant biases."
            )
        bias = constant.astype(np.int32)
    return ConvParams(
        bias=bias,
        multiplier=multiplier,
        right_shift=-shift,
        input_zero_point=int(x.zero_point[0]),
        weight_zero_point=np.broadcast_to(w.zero_point, (channels,)).astype(np.int32),
        output_zero_point=int(y.zero_point[0]),
        clip=node.attrs["clip"],
        rounding=node.attrs["rounding"],
    )


def add_params(graph: Graph, node: Node) -> AddParams:
    """Return the integer parameters of an add node.

    Raises
    ------
    ModelError
        A tensor has no quantization.
    """
    _require(node, "add")
    lhs, rhs = (tensor_quant(t) for t in graph.input_tensors(node))
    out = tensor_quant(graph.output_tensor(node))
    first, second, total = add_multipliers(
        float(lhs.scale[0]), float(rhs.scale[0]), float(out.scale[0])
    )
    return AddParams(
        left_shift=ADD_LEFT_SHIFT,
        input_multiplier=(first[0], second[0]),
        input_right_shift=(-first[1], -second[1]),
        input_zero_point=(int(lhs.zero_point[0]), int(rhs.zero_point[0])),
        output_multiplier=total[0],
        output_right_shift=-total[1],
        output_zero_point=int(out.zero_point[0]),
        clip=node.attrs["clip"],
        rounding=node.attrs["rounding"],
    )


def concat_params(graph: Graph, node: Node) -> ConcatParams:
    """Return the integer parameters of a concat node.

    Raises
    ------
    ModelError
        A tensor has no quantization, or a multiplier passes 2**30.
    """
    _require(node, "concat")
    output = graph.output_tensor(node)
    y = tensor_quant(output)
    inputs = [tensor_quant(t) for t in graph.input_tensors(node)]
    scaled = [quantize_multiplier(float(x.scale[0]) / float(y.scale[0])) for x in inputs]
    limits = np.iinfo(output.dtype)
    return ConcatParams(
        unchanged=tuple(x.same_as(y) for x in inputs),
        input_multiplier=tuple(m for m, _ in scaled),
        input_right_shift=tuple(-shift for _, shift in scaled),
        input_zero_point=tuple(int(x.zero_point[0]) for x in inputs),
        output_zero_point=int(y.zero_point[0]),
        clip=(int(limits.min), int(limits.max)),
        rounding="single",
    )


def pool_params(graph: Graph, node: Node) -> PoolParams:
    """Return the integer parameters of a max_pool2d or avg_pool2d node.

    Raises
    ------
    ModelError
        Input and output are quantized differently.
    """
    _require(node, "avg_pool2d", "max_pool2d")
    data, output = graph.input_tensors(node)[0], graph.output_tensor(node)
    if not tensor_quant(data).same_as(tensor_quant(output)):
        raise ModelError(
            f"A pool must keep scale and zero point; {node.name!r} changes them. "
            "Put a quantize operator after it."
        )
    rows, columns = (
        _valid_counts(
            data.shape[1 + i],
            node.attrs["window"][i],
            node.attrs["strides"][i],
            node.attrs["padding"][i],
        )
        for i in range(2)
    )
    lowest = int(np.iinfo(data.dtype).min)
    return PoolParams(
        pad_value=lowest if node.op == "max_pool2d" else 0,
        counts=np.outer(rows, columns).astype(np.int32),
        clip=node.attrs["clip"],
    )


def leaky_params(graph: Graph, node: Node) -> LeakyParams:
    """Return the integer parameters of a leaky_relu node, rounded once.

    Raises
    ------
    ModelError
        A tensor has no quantization, or `alpha` is negative.
    """
    _require(node, "leaky_relu")
    output = graph.output_tensor(node)
    x, y = tensor_quant(graph.input_tensors(node)[0]), tensor_quant(output)
    ratio = float(x.scale[0]) / float(y.scale[0])
    m, shift = quantize_multiplier(ratio)
    below, below_shift = quantize_multiplier(ratio * node.attrs["alpha"])
    limits = np.iinfo(output.dtype)
    return LeakyParams(
        multiplier=m,
        right_shift=-shift,
        below_multiplier=below,
        below_right_shift=-below_shift,
        input_zero_point=int(x.zero_point[0]),
        output_zero_point=int(y.zero_point[0]),
        clip=(int(limits.min), int(limits.max)),
        rounding="single",
    )


def average_multiplier(count: int, dtype: npt.DTypeLike = np.int8) -> tuple[int, int]:
    """Return ``(multiplier, right_shift)`` that divide a sum of `count` values by `count`.

    Rounded once, ``(x * m + 2**30) >> 31`` is then x / count rounded half away from zero: m is a
    little more than 2**31 / count, which pushes ties outwards. Checked here for every sum of
    values of the dtype.

    Raises
    ------
    ModelError
        `count` is below 1, or some sum would be divided wrongly.
    """
    if count < 1:
        raise ModelError(f"A window must hold at least 1 element, not {count}. Pad it less.")
    m = min((1 << 31) // count + 1, (1 << 31) - 1)
    limits = np.iinfo(np.dtype(dtype))
    total = np.arange(limits.min * count, limits.max * count + 1, dtype=np.int64)
    truth = np.sign(total) * ((2 * np.abs(total) + count) // (2 * count))
    if not np.array_equal((total * m + (1 << 30)) >> 31, truth):
        raise ModelError(
            f"No 32-bit multiplier divides every sum of {count} elements exactly. "
            "Average in two steps."
        )
    return m, 0


def mean_params(graph: Graph, node: Node) -> MeanParams:
    """Return the integer parameters of a mean node.

    Source: TFLite's ``QuantizedMeanOrSum``, which keeps as many bits of ``m / count`` as it can
    and truncates the rest.

    Raises
    ------
    ModelError
        A tensor has no quantization.
    """
    _require(node, "mean")
    data, output = graph.input_tensors(node)[0], graph.output_tensor(node)
    x, y = tensor_quant(data), tensor_quant(output)
    m, shift = quantize_multiplier(float(x.scale[0]) / float(y.scale[0]))
    count = int(np.prod([data.shape[axis] for axis in node.attrs["axes"]]))
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    limits = np.iinfo(output.dtype)
    return MeanParams(
        count=count,
        multiplier=(m << extra) // count,
        right_shift=extra - shift,
        input_zero_point=int(x.zero_point[0]),
        output_zero_point=int(y.zero_point[0]),
        clip=(int(limits.min), int(limits.max)),
        rounding=node.attrs["rounding"],
    )


def rescale_params(graph: Graph, node: Node) -> RescaleParams:
    """Return the integer parameters of a clip, relu, relu6 or integer-to-integer quantize node.

    Raises
    ------
    ModelError
        A tensor has no quantization.
    """
    _require(node, "clip", "quantize", "relu", "relu6")
    x = tensor_quant(graph.input_tensors(node)[0])
    output = graph.output_tensor(node)
    y = tensor_quant(output)
    # TFLite divides the scales of a ReLU as float32 numbers, those of a quantize as doubles.
    width = np.float64 if node.op == "quantize" else np.float32
    m, shift = quantize_multiplier(float(x.scale.astype(width)[0] / y.scale.astype(width)[0]))
    limits = np.iinfo(output.dtype)
    return RescaleParams(
        multiplier=m,
        right_shift=-shift,
        input_zero_point=int(x.zero_point[0]),
        output_zero_point=int(y.zero_point[0]),
        clip=node.attrs.get("clip", (int(limits.min), int(limits.max))),
        rounding=node.attrs["rounding"],
    )


def _require(node: Node, *ops: str) -> None:
    if node.op not in ops:
        raise ModelError(
            f"These parameters belong to {' or '.join(ops)}, not to {node.op} ({node.name!r}). "
            "Ask for the parameters of that operator."
        )


def _valid_counts(size: int, window: int, stride: int, pads: tuple[int, int]) -> Int32:
    begin = np.arange(window_output(size, window, stride, pads, 1)) * stride - pads[0]
    count: Int32 = (np.minimum(begin + window, size) - np.maximum(begin, 0)).astype(np.int32)
    return count
