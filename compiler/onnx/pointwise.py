"""Operators of one element at a time, softmax among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np
import onnx

from .build import Builder
from .form import axis_in
from .node import Constant, OnnxNode, Value

__all__ = ["POINTWISE"]

Conversion = Callable[[OnnxNode, Builder], list[Value]]


def _same(op: str, **fixed: Any) -> Conversion:
    """Return a conversion to an operator without parameters."""

    def convert(node: OnnxNode, build: Builder) -> list[Value]:
        return [build.emit(op, build.operands(node), **fixed)]

    return convert


def _chained(op: str) -> Conversion:
    """Return a conversion of an operator of any number of inputs to one of two."""

    def convert(node: OnnxNode, build: Builder) -> list[Value]:
        made, *rest = build.operands(node)
        for value in rest:
            made = build.emit(op, [made, value])
        return [made]

    return convert


def _parametric(op: str, **defaults: float) -> Conversion:
    """Return a conversion to an operator with parameters of the same names."""

    def convert(node: OnnxNode, build: Builder) -> list[Value]:
        attrs: dict[str, Any] = {
            name: float(node.attrs.get(name, value)) for name, value in defaults.items()
        }
        return [build.emit(op, [build.operand(node, 0)], **attrs)]

    return convert


def _relu(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    clip = (0.0, inf) if data.dtype.kind == "f" else (0, int(np.iinfo(data.dtype).max))
    return [build.emit("relu", [data], clip=clip)]


def _clip(node: OnnxNode, build: Builder) -> list[Value]:
    """Before: ``Clip(x, lo, hi)``. After: ``clip``; ``maximum, minimum`` by computed bounds."""
    data = build.operand(node, 0)
    real = data.dtype.kind == "f"
    limits = (-inf, inf) if real else _limits(data.dtype)
    bounds: list[float] = []
    made: Value = data
    for place, name, op in ((1, "min", "maximum"), (2, "max", "minimum")):
        bound: float = node.attrs.get(name, limits[place - 1])
        if node.has(place):
            given = build.operand(node, place)
            if prod(given.shape) != 1:
                node.refuse(
                    f"{name} must be one number, not of shape {given.shape}", "Use Max, Min"
                )
            if isinstance(given, Constant):
                bound = given.value.reshape(-1)[0].item()
            else:
                made = build.emit(op, [made, given])
        bounds.append(float(bound) if real else int(bound))
    if tuple(bounds) == limits:
        return [made]
    # Where the bounds cross, every output is the upper one.
    return [build.emit("clip", [made], clip=(min(bounds), bounds[1]))]


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _softmax(node: OnnxNode, build: Builder) -> list[Value]:
    """Before opset 13 every dimension from the axis on is one, after it the axis alone."""
    data = build.operand(node, 0)
    rank = len(data.shape)
    axis = axis_in(node, int(node.attrs.get("axis", -1 if node.opset >= 13 else 1)), rank)
    if node.opset >= 13 or prod(data.shape[axis + 1 :]) == 1:
        return [build.emit("softmax", [data], axis=axis, beta=1.0)]
    rows = build.reshape(data, (prod(data.shape[:axis]), prod(data.shape[axis:])))
    return [build.reshape(build.emit("softmax", [rows], axis=1, beta=1.0), data.shape)]


def _power(node: OnnxNode, build: Builder) -> list[Value]:
    base, exponent = build.operands(node)
    if exponent.dtype != base.dtype:
        if isinstance(exponent, Constant):
            exponent = Constant(exponent.value.astype(base.dtype), source=exponent.source)
        else:
            exponent = build.emit("cast", [exponent], dtype=base.dtype)
    return [build.emit("pow", [base, exponent])]


def _equal(node: OnnxNode, build: Builder) -> list[Value]:
    return [build.emit("equal", build.operands(node), dtype=np.bool_)]


def _where(node: OnnxNode, build: Builder) -> list[Value]:
    inputs = build.operands(node)
    return [build.emit("where", inputs, dtype=inputs[1].dtype)]


def _cast(node: OnnxNode, build: Builder) -> list[Value]:
    data, code = build.operand(node, 0), int(node.attrs["to"])
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError):
        dtype = np.dtype(object)
    if not (_is_numeric(dtype) and _is_numeric(data.dtype)):
        name = onnx.TensorProto.DataType.Name(code)
        node.refuse(
            f"a cast must be between numpy's numbers, not from {data.dtype} to {name}",
            "Use float32 or an integer type",
        )
    return [data if dtype == data.dtype else build.emit("cast", [data], dtype=dtype)]


def _is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether a type is one of numpy's own numbers; packed and 8-bit floats are others'."""
    return dtype.isbuiltin == 1 and dtype.kind in "biuf"


def _cast_like(node: OnnxNode, build: Builder) -> list[Value]:
    code = onnx.helper.np_dtype_to_tensor_dtype(build.operand(node, 1).dtype)
    return _cast(replace(node, attrs={"to": code}), build)


def _logical(node: OnnxNode, build: Builder) -> list[Value]:
    """Before: ``Not(a)``, ``And(a, b)``, ``Or(a, b)``. After: ``where`` of constants or b."""
    inputs = build.operands(node)
    yes, no = Constant(np.ones((), np.bool_)), Constant(np.zeros((), np.bool_))
    if node.op == "Not":
        inputs += [no, yes]
    else:
        inputs = [inputs[0], inputs[1], no] if node.op == "And" else [inputs[0], yes, inputs[1]]
    return [build.emit("where", inputs, dtype=np.bool_)]


def _compared(node: OnnxNode, build: Builder) -> list[Value]:
    """Before: ``GreaterOrEqual(a, b)``. After: ``equal(maximum(a, b), a)``; the others likewise."""
    lhs, rhs = build.operands(node)
    most = build.emit("maximum", [lhs, rhs])
    least = node.op in ("Less", "GreaterOrEqual")
    made = build.emit("equal", [most, lhs if least else rhs], dtype=np.bool_)
    if node.op.endswith("OrEqual"):
        return [made]
    yes, no = Constant(np.ones((), np.bool_)), Constant(np.zeros((), np.bool_))
    return [build.emit("where", [made, no, yes], dtype=np.bool_)]


def _identity(node: OnnxNode, build: Builder) -> list[Value]:
    return [build.operand(node, 0)]


def _dropout(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    if node.has(2) and build.known(node, 2, "training mode").any():
        node.refuse("it must not be in training mode", "Export the model for inference")
    return [data, Constant(np.ones(data.shape, np.bool_))][: len(node.outputs)]


def _negative(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    return [build.emit("sub", [Constant(np.zeros((), data.dtype)), data])]


def _reciprocal(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    return [build.emit("div", [Constant(np.ones((), data.dtype)), data])]


POINTWISE: Mapping[str, Conversion] = {
    "Add": _same("add"),
    "And": _logical,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Div": _same("div"),
    "Dropout": _dropout,
    "Equal": _equal,
    "Erf": _same("erf"),
    "Exp": _same("exp"),
    "Greater": _compared,
    "GreaterOrEqual": _compared,
    "HardSigmoid": _parametric("hard_sigmoid", alpha=0.2, beta=0.5),
    "HardSwish": _same("hard_swish"),
    "Identity": _identity,
    "LeakyRelu": _parametric("leaky_relu", alpha=0.01),
    "Less": _compared,
    "LessOrEqual": _compared,
    "Log": _same("log"),
    "Max": _chained("maximum"),
    "Min": _chained("minimum"),
    "Mul": _same("mul"),
    "Neg": _negative,
    "Not": _logical,
    "Or": _logical,
    "PRelu": _same("prelu"),
    "Pow": _power,
    "Reciprocal": _reciprocal,
    "Relu": _relu,
    "Sigmoid": _same("sigmoid"),
    "Softmax": _softmax,
    "Sqrt": _same("sqrt"),
    "Sub": _same("sub"),
    "Sum": _chained("add"),
    "Tanh": _same("tanh"),
    "Where": _where,
}
"""By type; ``(node, builder) -> values of its outputs``."""
