"""Operators on each element alone, of floats and of plain integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.te import Expr, Tensor, call, maximum, minimum, power, select
from vdla.compiler.te.expr import Const, ExprLike, Real

from .arithmetic import clipped
from .indexing import read
from .site import Site, wide_float

__all__ = ["ELEMENTWISE", "add", "clip"]

Definer = Callable[[Site], Tensor]


def _of(function: Callable[..., Expr]) -> Definer:
    """Make a definition of a function of the inputs' elements; half floats are widened first."""

    def definition(site: Site) -> Tensor:
        def element(*index: ExprLike) -> Expr:
            values = (read(site, k, index) for k in range(len(site.tensors)))
            result = function(*(v.astype(wide_float(v.dtype)) for v in values), **site.attrs)
            return result.astype(site.dtype)

        return site.compute(site.output.shape, element)

    return definition


def _number(value: float, like: Expr) -> Expr:
    return Real(float(value), like.dtype) if _real(like) else Const(int(value), like.dtype)


def _real(x: Expr) -> bool:
    return x.dtype.startswith("float")


def _div(a: Expr, b: Expr) -> Expr:
    if _real(a):
        return a / b
    zero = _number(0, a)
    if a.dtype.startswith("u"):
        return select(b.eq(0), zero, a // maximum(b, 1))
    # C's division drops the fraction. The processor's stops at 0 and at the least number by -1.
    safe = select(b.eq(0), _number(1, a), select(b.eq(-1), _number(1, a), b))
    floor = a // safe
    up = select(a.eq(floor * safe), floor, floor + 1)
    quotient = select(a.lt(0), select(safe.lt(0), floor, up), select(safe.lt(0), up, floor))
    return select(b.eq(0), zero, select(b.eq(-1), zero - a, quotient))


def _pow(a: Expr, b: Expr) -> Expr:
    if _real(a):
        return _real_pow(a, b)
    if a.dtype.startswith("u"):
        return power(a, b)
    # Of a negative exponent: 1 or -1 to it, and 0 of larger numbers.
    odd = select((b % 2).eq(1), a, _number(1, a))
    inverse = select(a.eq(1), odd, select(a.eq(-1), odd, _number(0, a)))
    return select(b.lt(0), inverse, power(a, maximum(b, 0)))


def _real_pow(a: Expr, b: Expr) -> Expr:
    if isinstance(b, Real) and b.value in (1.0, 2.0, 0.5):
        return {1.0: a, 2.0: a * a}[b.value] if b.value != 0.5 else call("pow", a, b)
    return call("pow", a, b)


def _sigmoid(x: Expr) -> Expr:
    return 1.0 / (call("exp", 0.0 - x) + 1.0)


def _hard_sigmoid(x: Expr, *, alpha: float, beta: float) -> Expr:
    return minimum(maximum(x * _rounded(alpha, x) + _rounded(beta, x), 0.0), 1.0)


def _hard_swish(x: Expr) -> Expr:
    return x * minimum(maximum(x / 6.0 + 0.5, 0.0), 1.0)


def _rounded(value: float, like: Expr) -> Expr:
    """Return a factor as numpy would hold it beside values of a dtype."""
    return Real(float(np.dtype(like.dtype).type(value)), like.dtype)


def _leaky_relu(x: Expr, *, alpha: float) -> Expr:
    return select(x.lt(0), x * _rounded(alpha, x), x)


def _prelu(x: Expr, slope: Expr) -> Expr:
    return select(x.lt(0), x * slope, x)


def _function(name: str) -> Definer:
    return _of(lambda x: call(name, x))


def _cast(site: Site) -> Tensor:
    x, dtype = site.input(0), site.dtype

    def element(*index: ExprLike) -> Expr:
        value = x[tuple(index)]
        whole = not (_real(value) or value.dtype == "bool" or dtype == "bool")
        return value.wrap(dtype) if whole and not dtype.startswith("float") else value.astype(dtype)

    return site.compute(x.shape, element)


def add(site: Site) -> Tensor:
    """Add floats or plain integers, and clip."""

    def element(*index: ExprLike) -> Expr:
        a, b = (read(site, k, index) for k in range(2))
        kind = wide_float(site.dtype)
        return clipped(a.astype(kind) + b.astype(kind), site.attrs["clip"], site.dtype)

    return site.compute(site.output.shape, element)


def clip(site: Site) -> Tensor:
    """Clip floats or plain integers: clip, relu and relu6."""
    x = site.input(0)
    return site.compute(x.shape, lambda *index: clipped(x[index], site.attrs["clip"], site.dtype))


ELEMENTWISE: Mapping[str, Definer] = {
    "cast": _cast,
    "div": _of(_div),
    "equal": _of(lambda a, b: a.eq(b)),
    "erf": _function("erf"),
    "exp": _function("exp"),
    "hard_sigmoid": _of(_hard_sigmoid),
    "hard_swish": _of(_hard_swish),
    "leaky_relu": _of(_leaky_relu),
    "log": _function("log"),
    "maximum": _of(maximum),
    "minimum": _of(minimum),
    "mul": _of(lambda a, b: a * b),
    "pow": _of(_pow),
    "prelu": _of(_prelu),
    "sigmoid": _of(_sigmoid),
    "sqrt": _function("sqrt"),
    "sub": _of(lambda a, b: a - b),
    "tanh": _function("tanh"),
    "where": _of(lambda condition, a, b: select(condition, a, b)),
}
"""The definitions by operator."""
