"""Operators on each element alone: reals in double precision, plain integers modulo their type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.compiler.graph import Node, Tensor

from .values import Array, Operator, Value, wide

__all__ = ["ELEMENTWISE"]


def _of(function: Callable[..., object]) -> Operator:
    """Make an operator of a function of the operands, its attributes by name."""

    def operator(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
        with np.errstate(all="ignore"):
            result = np.asarray(function(*(wide(v.array) for v in inputs), **node.attrs))
            return result.astype(output.dtype)

    return operator


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    magnitude = np.abs(a) // np.abs(b)  # towards zero
    return np.where((a < 0) == (b < 0), magnitude, -magnitude) if a.dtype.kind == "i" else magnitude


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a**b
    one = np.frompyfunc(_integer_power, 2, 1)
    return np.asarray(one(a, b)).astype(np.uint64)


def _integer_power(a: int, b: int) -> int:
    a, b = int(a), int(b)
    if b < 0:
        return int(pow(a, b % 2, 1 << 64)) if abs(a) == 1 else 0
    return int(pow(a, b, 1 << 64))


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(np.float64)


def _prelu(x: Array, slope: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + slope * np.minimum(x, 0))


def _cast(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    with np.errstate(all="ignore"):
        x = inputs[0].array
        return np.asarray(x != 0 if output.dtype == bool else x.astype(output.dtype))


ELEMENTWISE: Mapping[str, Operator] = {
    "cast": _cast,
    "div": _of(_div),
    "equal": _of(lambda a, b: a == b),
    "erf": _of(_erf),
    "exp": _of(np.exp),
    "hard_sigmoid": _of(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1)),
    "hard_swish": _of(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "leaky_relu": _of(lambda x, alpha: np.maximum(x, 0) + alpha * np.minimum(x, 0)),
    "log": _of(np.log),
    "maximum": _of(lambda a, b: np.where((a > b) | (a != a), a, b)),
    "minimum": _of(lambda a, b: np.where((a < b) | (a != a), a, b)),
    "mul": _of(lambda a, b: a * b),
    "pow": _of(_pow),
    "prelu": _of(_prelu),
    "sigmoid": _of(lambda x: 1 / (1 + np.exp(-x))),
    "sqrt": _of(np.sqrt),
    "sub": _of(lambda a, b: a - b),
    "tanh": _of(np.tanh),
    "where": _of(lambda condition, a, b: np.where(condition, a, b)),
}
"""``(node, input values, output tensor) -> output array``, by operator."""
