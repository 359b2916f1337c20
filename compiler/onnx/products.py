"""Products of matrices, normalization, and arithmetic on plain integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.compiler.graph.tensor import Array, Quant

from .build import Builder
from .form import refuse_infinite
from .node import Constant, OnnxNode, Value
from .windows import convolution

__all__ = ["PRODUCTS", "product"]


def _gemm(node: OnnxNode, build: Builder) -> list[Value]:
    """Before: ``Gemm(A, B, C)``. After: ``dense`` where B is constant, else ``matmul, add``."""
    data, factor = build.operand(node, 0), build.operand(node, 1)
    refuse_infinite(node, "weights", build.operands(node)[1:])
    for value in (data, factor):
        if len(value.shape) != 2:
            node.refuse(
                f"its matrices must have 2 dimensions, not shape {value.shape}", "Use MatMul"
            )
    alpha, beta = float(node.attrs.get("alpha", 1.0)), float(node.attrs.get("beta", 1.0))
    bias = scaled(build, build.operand(node, 2), beta) if node.has(2) else None
    if node.attrs.get("transA", 0):
        data = build.transpose(data, (1, 0))
    flipped = bool(node.attrs.get("transB", 0))
    if not isinstance(factor, Constant):
        factor = build.transpose(factor, (1, 0)) if flipped else factor
        made: Value = scaled(build, build.emit("matmul", [data, factor]), alpha)
        return [made if bias is None else build.emit("add", [made, bias])]
    weight = scaled(build, factor if flipped else build.transpose(factor, (1, 0)), alpha)
    row = None if bias is None else _row(build, bias, weight.shape[0])
    inputs = [data, weight] if row is None else [data, weight, row]
    made = build.emit("dense", inputs, keep_dims=False)
    return [build.emit("add", [made, bias]) if bias is not None and row is None else made]


def _row(build: Builder, bias: Value, count: int) -> Value | None:
    """Return a bias as (count,), or None where it differs from row to row or is computed."""
    if not isinstance(bias, Constant):
        return None
    if bias.data.size == count and bias.shape[-1:] == (count,):
        return build.reshape(bias, (count,))
    if bias.data.size == 1:
        return Constant(np.broadcast_to(bias.value.ravel(), (count,)).copy(), source=bias.source)
    return None


def scaled(build: Builder, value: Value, factor: float) -> Value:
    """Multiply by a number: in the scale where integers stand for reals."""
    if factor == 1:
        return value
    if not isinstance(value, Constant):
        return build.emit("mul", [value, Constant(np.asarray(factor, value.dtype))])
    quant = value.quant
    if quant is not None and factor > 0:
        by = np.asarray(quant.scale * factor, quant.scale.dtype)
        return Constant(value.data, Quant(by, quant.zero_point, quant.axis), value.source)
    return Constant((value.value * factor).astype(value.dtype), source=value.source)


def _matmul(node: OnnxNode, build: Builder) -> list[Value]:
    lhs, rhs = build.operands(node)
    refuse_infinite(node, "weights", [lhs, rhs])
    return [product(build, lhs, rhs)]


def product(build: Builder, lhs: Value, rhs: Value) -> Value:
    """Emit numpy's matmul: a dense where the right side is a constant matrix."""
    if isinstance(rhs, Constant) and len(rhs.shape) == 2 and lhs.shape:
        weight = build.transpose(rhs, (1, 0))
        if len(lhs.shape) == 1:
            row = build.reshape(lhs, (1, *lhs.shape))
            made = build.emit("dense", [row, weight], keep_dims=False)
            return build.reshape(made, (rhs.shape[1],))
        return build.emit("dense", [lhs, weight], keep_dims=len(lhs.shape) != 2)
    return build.emit("matmul", [lhs, rhs])


def _batch_normalization(node: OnnxNode, build: Builder) -> list[Value]:
    """Before: ``BatchNormalization(x)``. After: ``mul, add`` by constants (C, 1, 1)."""
    if node.attrs.get("training_mode", 0) or any(node.outputs[1:]):
        node.refuse("it must not be in training mode", "Export the model for inference")
    data = build.operand(node, 0)
    scale, shift, mean, variance = (
        build.known(node, place, what).astype(np.float64)
        for place, what in enumerate(("scale", "shift", "mean", "variance"), start=1)
    )
    channels = data.shape[1] if len(data.shape) > 1 else 1
    for place, value in enumerate((scale, shift, mean, variance), start=1):
        what = ("scale", "shift", "mean", "variance")[place - 1]
        if value.shape != (channels,):
            node.refuse(
                f"its {what} must have one element for each of {channels} channels, not shape "
                f"{value.shape}",
                "Export the model again",
            )
        refuse_infinite(node, what, [build.operand(node, place)])
    epsilon = float(node.attrs.get("epsilon", 1e-5))
    if (variance < 0).any() or not (variance + epsilon > 0).all():
        node.refuse(
            f"a variance must be at least 0, and above it with epsilon, not {variance.min():g} "
            f"with {epsilon:g}",
            "Train or export the model again",
        )
    factor = scale / np.sqrt(variance + epsilon)
    offset = shift - mean * factor
    along = (-1, *[1] * (len(data.shape) - 2))

    def constant(values: Array) -> Constant:
        return Constant(values.astype(data.dtype).reshape(along))

    multiplied = build.emit("mul", [data, constant(factor)])
    return [build.emit("add", [multiplied, constant(offset)])]


def _centred(node: OnnxNode, build: Builder, place: int, zero: int, axis: int) -> Value:
    """Return an integer input less its zero point, int32."""
    value = build.operand(node, place)
    offset: Array = np.zeros(1, np.int32)
    if node.has(zero):
        offset = build.known(node, zero, "zero point").astype(np.int32)
    if offset.size not in (1, value.shape[axis]):
        node.refuse(
            f"a zero point must be one number, or {value.shape[axis]} along axis {axis}, not of "
            f"shape {offset.shape}",
            "Quantize the model again",
        )
    if offset.size > 1 and offset.ndim == 1:
        along = [1] * len(value.shape)
        along[axis] = -1
        offset = offset.reshape(along)
    if offset.size == 1:
        offset = offset.reshape(())
    if isinstance(value, Constant):
        return Constant(value.data.astype(np.int32) - offset, source=value.source)
    wide = build.emit("cast", [value], dtype=np.int32)
    return build.emit("sub", [wide, Constant(offset)]) if offset.any() else wide


def _integer_convolution(node: OnnxNode, build: Builder) -> list[Value]:
    data, weight = _centred(node, build, 0, 2, 1), _centred(node, build, 1, 3, 0)
    return [convolution(node, build, [data, weight])]


def _integer_matmul(node: OnnxNode, build: Builder) -> list[Value]:
    lhs, rhs = _centred(node, build, 0, 2, -2), _centred(node, build, 1, 3, -1)
    return [product(build, lhs, rhs)]


PRODUCTS: Mapping[str, Callable[[OnnxNode, Builder], Sequence[Value]]] = {
    "BatchNormalization": _batch_normalization,
    "ConvInteger": _integer_convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _integer_matmul,
}
"""By type; ``(node, builder) -> values of its outputs``."""
