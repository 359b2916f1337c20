"""Operators that compute each element on its own, of floats and of plain integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.module import Layer, TensorInfo

from .arithmetic import Array
from .operands import Kernel, Operand
from .special import erf

__all__ = ["ELEMENTWISE"]


def _simply(function: Callable[..., Array]) -> Kernel:
    """Make a kernel of a function of the arrays; what overflows becomes infinite."""

    def kernel(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(operand.array for operand in inputs)))

    return kernel


def _with_attrs(function: Callable[..., Array]) -> Kernel:
    """Make a kernel of a function of the array and the attributes by name."""

    def kernel(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(inputs[0].array, **layer.attrs))

    return kernel


def _div(lhs: Array, rhs: Array) -> Array:
    if lhs.dtype.kind == "f":
        return lhs / rhs
    # C's division drops the fraction, where numpy's rounds down.
    quotient = lhs // rhs
    inexact = (quotient * rhs != lhs) & (rhs != 0)
    return np.asarray(quotient + (inexact & ((lhs < 0) != (rhs < 0))), lhs.dtype)


def _pow(base: Array, exponent: Array) -> Array:
    if base.dtype.kind != "i":
        return np.power(base, exponent)
    power = np.power(base, np.maximum(exponent, 0))
    odd = np.where(exponent % 2 == 1, base, base * base)
    inverse = np.where(np.abs(base) == 1, odd, 0)  # of other integers less than 1
    return np.where(exponent < 0, inverse, power).astype(base.dtype)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), x.dtype)


def _hard_sigmoid(x: Array, *, alpha: float, beta: float) -> Array:
    return np.asarray(np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), 0, 1))


def _hard_swish(x: Array) -> Array:
    return np.asarray(x * np.clip(x / x.dtype.type(6) + x.dtype.type(0.5), 0, 1))


def _leaky_relu(x: Array, *, alpha: float) -> Array:
    return np.where(x < 0, x * x.dtype.type(alpha), x)


def _prelu(x: Array, slope: Array) -> Array:
    return np.where(x < 0, x * slope, x)


def _cast(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    with np.errstate(all="ignore"):
        return inputs[0].array.astype(output.dtype)


ELEMENTWISE: Mapping[str, Kernel] = {
    "cast": _cast,
    "div": _simply(_div),
    "equal": _simply(np.equal),
    "erf": _simply(erf),
    "exp": _simply(np.exp),
    "hard_sigmoid": _with_attrs(_hard_sigmoid),
    "hard_swish": _simply(_hard_swish),
    "leaky_relu": _with_attrs(_leaky_relu),
    "log": _simply(np.log),
    "maximum": _simply(np.maximum),
    "minimum": _simply(np.minimum),
    "mul": _simply(np.multiply),
    "pow": _simply(_pow),
    "prelu": _simply(_prelu),
    "sigmoid": _simply(_sigmoid),
    "sqrt": _simply(np.sqrt),
    "sub": _simply(np.subtract),
    "tanh": _simply(np.tanh),
    "where": _simply(np.where),
}
"""The kernels by operator."""
