"""Expressions of one element as functions of the loops' values, on plain Python numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, trunc
from typing import Any

import numpy as np

from vdla.compiler.te.expr import Binary, Call, Cast, Const, Expr, Pick, Read, Real, Select, Var
from vdla.compiler.te.ranges import dtype_range
from vdla.errors import LoweringError
from vdla.isa import RQ_PACK

from .evaluate import Env, Evaluator
from .printer import expr_text
from .stmt import Intrinsic

__all__ = ["COMBINE", "ElementCompiler", "Value", "saturate", "wrap"]

Value = Callable[[Env], Any]
"""A function of the loops' values: an int for integers and bool, a float for floats."""

_BITS = {"bool": 1, **{f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}}


class ElementCompiler:
    """Turns expressions into functions of the loops' values; sums wrap at their dtype's width.

    Parameters
    ----------
    evaluator : Evaluator
        Owns the slots of loop variables.
    call : Intrinsic or None
        Gives the values of a declaration's scalars and of its calls' attributes.
    load : callable
        Returns the function that reads a store's load.
    read : callable
        Returns the function that reads an element of a declaration's operand.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        call: Intrinsic | None,
        load: Callable[[int], Value] | None = None,
        read: Callable[[Read], Value] | None = None,
    ) -> None:
        self._evaluator, self._load, self._read = evaluator, load, read
        self._scalars: dict[Var, int] = {}
        self._attributes: list[int] = []
        if call is not None:
            count = len(call.intrin.scalars)
            self._scalars = dict(zip(call.intrin.scalars, call.scalars[:count], strict=True))
            self._attributes = list(call.scalars[count:])

    def value(self, expr: Expr) -> Value:
        """Return a function that evaluates an expression."""
        if isinstance(expr, Const) or (isinstance(expr, Var) and expr in self._scalars):
            constant = expr.value if isinstance(expr, Const) else self._scalars[expr]
            return lambda env: constant
        if isinstance(expr, Real):
            number = wrap(expr.value, expr.dtype)
            return lambda env: number
        if isinstance(expr, Var):
            slot = self._evaluator.slot(expr)
            return lambda env: env[slot]
        if isinstance(expr, Binary):
            a, b, operate, dtype = (
                self.value(expr.a),
                self.value(expr.b),
                _BINARY[expr.op],
                expr.dtype,
            )
            return lambda env: wrap(operate(a(env), b(env)), dtype)
        if isinstance(expr, Cast):
            inner, target = self.value(expr.value), expr.dtype
            return lambda env: saturate(inner(env), target)
        if isinstance(expr, Select):
            parts = (expr.condition, expr.then, expr.other)
            condition, then, other = (self.value(part) for part in parts)
            return lambda env: then(env) if condition(env) else other(env)
        if isinstance(expr, Pick):
            index, values = self.value(expr.index), expr.values
            return lambda env: values[index(env)]
        if isinstance(expr, Read) and self._read is not None:
            return self._read(expr)
        if isinstance(expr, Call):
            return self._call(expr)
        raise LoweringError(f"Only expressions of one element can run, not {expr_text(expr)}.")

    def _call(self, expr: Call) -> Value:
        if expr.name == "load" and self._load is not None:
            return self._load(dict(expr.attrs)["position"])
        if expr.name in _CALLS:
            function, dtype = _CALLS[expr.name], expr.dtype
            args = [self.value(arg) for arg in expr.args]
            return lambda env: wrap(float(function(*(arg(env) for arg in args))), dtype)
        if expr.name == "wrap":
            whole, narrow = self.value(expr.args[0]), expr.dtype
            return lambda env: wrap(int(whole(env)), narrow)
        if expr.name == "power":
            base, exponent, kind = *(self.value(arg) for arg in expr.args), expr.dtype
            return lambda env: wrap(pow(base(env), exponent(env), 1 << _BITS[kind]), kind)
        if expr.name != "requantize":
            known = ", ".join((*_CALLS, "power", "requantize", "wrap"))
            raise LoweringError(f"A call must be of one of {known}, not of {expr.name}.")
        low, high = (value for _, value in expr.attrs)
        if self._attributes:
            low, high = self._attributes[:2]
            del self._attributes[:2]
        x, bias, multiplier, packed = (self.value(arg) for arg in expr.args)
        return lambda env: _requantize(x(env), bias(env), multiplier(env), packed(env), low, high)


def _least(a: Any, b: Any) -> Any:
    return a if a != a or a < b else b


def _greatest(a: Any, b: Any) -> Any:
    return a if a != a or a > b else b


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "max": _greatest,
    "min": _least,
}
"""What each kind of reduction does with the result so far and the next source."""


def _shift_right(a: int, b: int) -> int:
    return a >> b if b >= 0 else a << -b


def _divide(a: float, b: float) -> float:
    return float(np.divide(a, b))


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": _least,
    "max": _greatest,
    ">>": _shift_right,
    "<<": lambda a, b: _shift_right(a, -b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    "==": lambda a, b: int(a == b),
    "and": lambda a, b: int(bool(a) and bool(b)),
}


_CALLS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": np.ceil,
    "erf": erf,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "pow": np.power,
    "rint": np.rint,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}
"""Functions of floats, computed in double precision."""


def wrap(value: Any, dtype: str) -> Any:
    """Return a value as arithmetic of a dtype keeps it: low bits, or the nearest float."""
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            return float(np.dtype(dtype).type(value))
    if dtype == "bool":
        return value
    bits = _BITS[dtype]
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if dtype[0] == "i" and low >> (bits - 1) else low


def saturate(value: Any, dtype: str) -> Any:
    """Return the value of a dtype nearest to a value, as conversions do."""
    if dtype.startswith("float"):
        return wrap(value, dtype)
    if dtype == "bool":
        return int(bool(value))
    least, greatest = dtype_range(dtype)
    if isinstance(value, float):
        value = 0 if value != value else trunc(max(least, min(greatest, value)))
    return max(least, min(greatest, value))


def _requantize(x: int, bias: int, multiplier: int, packed: int, low: int, high: int) -> int:
    field = {}
    for bits in RQ_PACK:
        value = packed >> bits.lsb & ((1 << bits.width) - 1)
        negative = bits.signed and value >> (bits.width - 1)
        field[bits.name] = value - (1 << bits.width) if negative else value
    product_, shift = wrap(x + bias, "int32") * multiplier, field["shift"]
    if field["single"]:
        scaled = product_ + (1 << 30 + shift) >> 31 + shift
    else:
        rounded = min(product_ + (1 << 30) >> 31, (1 << 31) - 1)
        half = 1 << shift >> 1
        scaled = abs(rounded) + half >> shift
        scaled = scaled if rounded >= 0 else -scaled
    scaled += field["zero_point"]
    return int(wrap(max(low, min(high, scaled)) if low <= high else scaled, "int32"))
