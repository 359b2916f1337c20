"""Quantize, dequantize, and operators that hold both: each becomes a float one between the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import onnx

from vdla.compiler.graph.tensor import Array, Quant

from .build import Builder
from .folding import evaluate
from .form import axis_in
from .movement import MOVEMENT
from .node import Constant, OnnxNode, Value
from .pointwise import POINTWISE
from .products import PRODUCTS
from .windows import WINDOWS

__all__ = ["QUANTIZED"]

Conversion = Callable[[OnnxNode, Builder], Sequence[Value]]

_FLOAT: Mapping[str, Conversion] = {**MOVEMENT, **POINTWISE, **PRODUCTS, **WINDOWS}
_NARROW = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}


def _quant(node: OnnxNode, build: Builder, place: int, dtype: np.dtype[Any], rank: int) -> Quant:
    """Return what a scale and a zero point at `place` say."""
    scale: Array = build.known(node, place, "scale")
    zero: Array = np.zeros(scale.shape, dtype)
    if node.has(place + 1):
        zero = build.known(node, place + 1, "zero point")
    if scale.size == 1:
        return Quant(scale.reshape(1).astype(np.float32), zero.reshape(1).astype(np.int64))
    axis = axis_in(node, int(node.attrs.get("axis", 1)), max(rank, 1))
    if scale.ndim != 1:
        node.refuse(
            f"scales must run along one axis, not be of shape {scale.shape}", "Quantize by channels"
        )
    zero = np.broadcast_to(zero, scale.shape).astype(np.int64)
    return Quant(scale.astype(np.float32), zero, axis)


def _refuse(node: OnnxNode, rule: str, dtype: np.dtype[Any]) -> NoReturn:
    blocks = f" in blocks of {node.attrs['block_size']}" if node.attrs.get("block_size") else ""
    node.refuse(
        f"{rule} 8 to 32-bit integers with one scale, or one a channel, not {dtype.name}{blocks}",
        "Quantize it to 8 bits",
    )


def _dequantize(node: OnnxNode, build: Builder) -> list[Value]:
    """A constant keeps its integers; what is computed gets a dequantize.

    Before: ``DequantizeLinear(w int8)``. After: the constant w with scale and zero point.
    """
    data = build.operand(node, 0)
    scale: Array = build.known(node, 1, "scale")
    if isinstance(data, Constant):
        values = data.data
        if values.dtype.name in _NARROW:
            values = values.astype(_NARROW[values.dtype.name])
        whole = values.dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32)
        if not whole or node.attrs.get("block_size", 0) or scale.ndim > 1:
            return evaluate(node, build.operands(node))
        quant = _quant(node, build, 1, values.dtype, values.ndim)
        kept = Constant(values, quant, data.source)
        return [kept if scale.dtype == np.float32 else Constant(kept.value.astype(scale.dtype))]
    if node.attrs.get("block_size", 0) or data.dtype.kind not in "iu":
        _refuse(node, "an activation must be", data.dtype)
    quant = _quant(node, build, 1, data.dtype, len(data.shape))
    return [build.emit("dequantize", [build.quantized(data, quant)], dtype=scale.dtype)]


def _quantize(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    code = int(node.attrs.get("output_dtype", 0))
    dtype = np.dtype(np.uint8)
    if node.has(2):
        dtype = build.known(node, 2, "zero point").dtype
    elif code:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    if node.attrs.get("block_size", 0) or dtype.kind not in "iu":
        _refuse(node, "it must make", dtype)
    quant = _quant(node, build, 1, dtype, len(data.shape))
    if data.dtype != np.float32:
        data = build.emit("cast", [data], dtype=np.float32)
    return [build.emit("quantize", [data], dtype=dtype, quant=quant, rounding="even")]


def _integer(op: str, inputs: Sequence[int], output: int, *, bias: int | None = None) -> Conversion:
    """Return the conversion of an operator of integers to that of reals.

    Parameters
    ----------
    op : str
        Of reals.
    inputs : sequence of int
        Places of its operands; each is followed by scale and zero point.
    output : int
        Place of the output's scale; its zero point follows.
    bias : int or None
        Place of an int32 bias, at the scale of the products.
    """

    def convert(node: OnnxNode, build: Builder) -> list[Value]:
        names, scales = [], []
        for place in inputs:
            names.append(_real(node, build, place, weight=bias is not None and place != inputs[0]))
            scales.append(build.known(node, place + 1, "scale"))
        if bias is not None and node.has(bias):
            names.append(_real_bias(node, build, bias, scales))
        # Softmax means another thing in old opsets; this attribute says which one is meant.
        opset = int(node.attrs.get("opset", node.opset))
        real = replace(node, op=op, opset=opset, inputs=tuple(names))
        return [_back(node, build, _FLOAT[op](real, build)[0], output)]

    return convert


def _real(node: OnnxNode, build: Builder, place: int, weight: bool = False) -> str:
    """Dequantize an operand; return the name under which the builder knows the result."""
    name = f"{node.inputs[place]}, dequantized for {node.index}"
    pair = tuple(node.inputs[place : place + 3])
    # Scales of weights run along their output channels: first of Conv's, last of a matrix.
    last = len(build.operand(node, place).shape) - 1
    matrix = node.op in ("QLinearMatMul", "com.microsoft.QGemm")
    flipped = bool(node.attrs.get("transB", 0))
    attrs = {"axis": last if matrix and not flipped else 0}
    (build.values[name],) = _dequantize(replace(node, inputs=pair, attrs=attrs), build)
    return name


def _real_bias(node: OnnxNode, build: Builder, place: int, scales: Sequence[Array]) -> str:
    name = f"{node.inputs[place]}, dequantized for {node.index}"
    data = build.operand(node, place)
    scale = (scales[0].reshape(-1) * scales[1].reshape(-1)).astype(np.float32)
    quant = Quant(scale, np.zeros(scale.size, np.int64), None if scale.size == 1 else 0)
    if isinstance(data, Constant):
        build.values[name] = Constant(data.data, quant, data.source)
    else:
        build.values[name] = build.emit(
            "dequantize", [build.quantized(data, quant)], dtype=np.float32
        )
    return name


def _back(node: OnnxNode, build: Builder, value: Value, place: int) -> Value:
    pair = tuple(node.inputs[place : place + 2])
    name = f"{node.outputs[0]}, before {node.index}"
    build.values[name] = value
    return _quantize(replace(node, inputs=(name, *pair), attrs={}), build)[0]


def _integer_concat(node: OnnxNode, build: Builder) -> list[Value]:
    names = [_real(node, build, place) for place in range(2, len(node.inputs), 3)]
    made = _FLOAT["Concat"](replace(node, op="Concat", inputs=tuple(names)), build)[0]
    return [_back(node, build, made, 0)]


QUANTIZED: Mapping[str, Conversion] = {
    "DequantizeLinear": _dequantize,
    "QLinearConv": _integer("Conv", (0, 3), 6, bias=8),
    "QLinearMatMul": _integer("MatMul", (0, 3), 6),
    "QuantizeLinear": _quantize,
    "com.microsoft.DequantizeLinear": _dequantize,
    "com.microsoft.QGemm": _integer("Gemm", (0, 3), 7, bias=6),
    "com.microsoft.QLinearAdd": _integer("Add", (0, 3), 6),
    "com.microsoft.QLinearAveragePool": _integer("AveragePool", (0,), 3),
    "com.microsoft.QLinearConcat": _integer_concat,
    "com.microsoft.QLinearGlobalAveragePool": _integer("GlobalAveragePool", (0,), 3),
    "com.microsoft.QLinearLeakyRelu": _integer("LeakyRelu", (0,), 3),
    "com.microsoft.QLinearMul": _integer("Mul", (0, 3), 6),
    "com.microsoft.QLinearSigmoid": _integer("Sigmoid", (0,), 3),
    "com.microsoft.QLinearSoftmax": _integer("Softmax", (0,), 3),
    "com.microsoft.QuantizeLinear": _quantize,
}
"""By type; ``(node, builder) -> values of its outputs``."""
