"""Functions of floats in LLVM IR, in as many lanes as their arguments.

Those of float32 are polynomials after a reduction of the range. Their coefficients are those of
the polynomial through the function at Chebyshev nodes, which is within a small factor of the best
(Trefethen, Approximation Theory and Approximation Practice, chapter 16); the errors that remain
are the roundings of float32. Those of float64 call libm, a lane at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.ir as ll
import numpy as np
from numpy.polynomial import chebyshev

from vdla.errors import LoweringError

from .convert import splat
from .functions import declared

__all__ = ["call_function"]

_INTRINSICS = {"abs": "fabs", "ceil": "ceil", "floor": "floor", "rint": "rint", "sqrt": "sqrt"}
_LIBM = {"erf": "erf", "exp": "exp", "log": "log", "pow": "pow", "tanh": "tanh"}


def call_function(builder: ll.IRBuilder, name: str, args: Sequence[Any], dtype: str) -> Any:
    """Return a function of floats by its name in `vdla.compiler.te.call`, or an integer's power.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    name : str
    args : sequence of llvmlite.ir.Value
        Of one type: scalars, or vectors of as many lanes.
    dtype : str
        ``float32`` or ``float64``; an integer's for ``power``.
    """
    if name == "power":
        return _power(builder, *args)
    if name in _INTRINSICS:
        return _intrinsic(builder, f"llvm.{_INTRINSICS[name]}", args)
    if name in _OF_FLOAT32 and dtype == "float32":
        return _OF_FLOAT32[name](_Lanes(builder, args[0].type), args[0])
    if name in _LIBM:
        return _by_lane(builder, _LIBM[name] + ("f" if dtype == "float32" else ""), args)
    known = ", ".join(sorted({*_INTRINSICS, *_LIBM}))
    raise LoweringError(f"A function must be one of {known} on a processor, not {name}.")


def _power(builder: ll.IRBuilder, base: Any, exponent: Any) -> Any:
    """Return an integer's power, modulo its range, by squaring."""
    count = base.type.count if isinstance(base.type, ll.VectorType) else None
    scalar = base.type if count is None else base.type.element
    zero, one = (splat(builder, ll.Constant(scalar, k), count) for k in (0, 1))
    result = one
    for _ in range(scalar.width):
        odd = builder.icmp_signed("!=", builder.and_(exponent, one), zero)
        result = builder.select(odd, builder.mul(result, base), result)
        base, exponent = builder.mul(base, base), builder.lshr(exponent, one)
    return result


def _intrinsic(builder: ll.IRBuilder, name: str, args: Sequence[Any]) -> Any:
    kind = args[0].type
    scalar = kind.element if isinstance(kind, ll.VectorType) else kind
    suffix = {"half": "f16", "float": "f32", "double": "f64"}[str(scalar)]
    if isinstance(kind, ll.VectorType):
        suffix = f"v{kind.count}{suffix}"
    function = declared(builder.module, f"{name}.{suffix}", kind, [arg.type for arg in args])
    return builder.call(function, args)


def _by_lane(builder: ll.IRBuilder, name: str, args: Sequence[Any]) -> Any:
    kind = args[0].type
    if not isinstance(kind, ll.VectorType):
        return builder.call(declared(builder.module, name, kind, [kind] * len(args)), args)
    result: Any = ll.Constant(kind, ll.Undefined)
    for k in range(kind.count):
        at = ll.Constant(ll.IntType(32), k)
        one = _by_lane(builder, name, [builder.extract_element(arg, at) for arg in args])
        result = builder.insert_element(result, one, at)
    return result


class _Lanes:
    """Arithmetic of float32 with numbers as constants, and the bits of floats as integers."""

    def __init__(self, builder: ll.IRBuilder, kind: Any) -> None:
        self.build, self.kind = builder, kind
        self._count = kind.count if isinstance(kind, ll.VectorType) else None
        whole = ll.IntType(32)
        self.whole = whole if self._count is None else ll.VectorType(whole, self._count)

    def number(self, value: float) -> Any:
        return splat(self.build, ll.Constant(ll.FloatType(), float(np.float32(value))), self._count)

    def integer(self, value: int) -> Any:
        return splat(self.build, ll.Constant(ll.IntType(32), value), self._count)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return ``a * b + c``, rounded once where the processor can."""
        product = self.build.fmul(a, b, flags=("contract",))
        return self.build.fadd(product, c, flags=("contract",))

    def polynomial(self, coefficients: Sequence[float], x: Any) -> Any:
        """Return a polynomial, coefficients of low powers first."""
        total = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.number(coefficient))
        return total

    def clamp(self, x: Any, low: float, high: float) -> Any:
        for sign, bound in (("<", low), (">", high)):
            limit = self.number(bound)
            x = self.build.select(self.build.fcmp_ordered(sign, x, limit), limit, x)
        return x

    def power_of_two(self, exponent: Any) -> Any:
        """Return 2 to an integer in -126..127."""
        biased = self.build.add(exponent, self.integer(127))
        return self.build.bitcast(self.build.shl(biased, self.integer(23)), self.kind)

    def magnitude(self, x: Any) -> Any:
        return _intrinsic(self.build, "llvm.fabs", (x,))

    def signed_as(self, x: Any, sign: Any) -> Any:
        return _intrinsic(self.build, "llvm.copysign", (x, sign))


@cache
def _fit(
    function: Callable[[float], float], low: float, high: float, degree: int
) -> tuple[float, ...]:
    """Return coefficients of the polynomial through a function at Chebyshev nodes."""
    middle, half = (low + high) / 2, (high - low) / 2

    def on_nodes(u: Any) -> Any:
        return np.array([function(middle + half * float(v)) for v in u])

    series = chebyshev.chebinterpolate(on_nodes, degree)
    inner = np.polynomial.Polynomial(chebyshev.cheb2poly(series))
    shifted: Any = inner(np.polynomial.Polynomial([-middle / half, 1 / half]))
    return tuple(float(c) for c in shifted.coef)


_LN2 = math.log(2)
_LN2_HIGH = math.floor(_LN2 * 512) / 512
"""Of so few bits that its product with an exponent is exact."""


def _exp(at: _Lanes, x: Any) -> Any:
    """Return 2^n exp(r) with r = x - n ln 2 in -ln 2 / 2 .. ln 2 / 2."""
    build = at.build
    inside = at.clamp(x, -110.0, 90.0)  # where the result is 0 and infinite already
    scaled = build.fmul(inside, at.number(1 / _LN2))
    n = _intrinsic(build, "llvm.rint", (scaled,))
    r = at.fma(n, at.number(-_LN2_HIGH), inside)
    r = at.fma(n, at.number(_LN2_HIGH - _LN2), r)
    result = at.polynomial(_fit(math.exp, -0.35, 0.35, 6), r)
    # 2^n in two steps, since n leaves the range of exponents at both ends.
    whole = build.fptosi(n, at.whole)
    half = build.ashr(whole, at.integer(1))
    result = build.fmul(result, at.power_of_two(half))
    result = build.fmul(result, at.power_of_two(build.sub(whole, half)))
    return build.select(build.fcmp_unordered("uno", x, x), x, result)


def _log_tail(f: float) -> float:
    """Return (log(1 + f) - f + f^2 / 2) / f^3."""
    if abs(f) < 0.05:
        return float(sum((-1) ** k * f**k / (k + 3) for k in range(20)))
    return (math.log1p(f) - f + f * f / 2) / f**3


def _log(at: _Lanes, x: Any) -> Any:
    """Return e ln 2 + log(1 + f) with x = 2^e (1 + f) and 1 + f in sqrt(1/2) .. sqrt(2)."""
    build = at.build
    tiny = build.fcmp_ordered("<", x, at.number(2.0**-126))
    raised = build.select(tiny, build.fmul(x, at.number(2.0**23)), x)
    bits = build.bitcast(raised, at.whole)
    root = int(np.float32(math.sqrt(0.5)).view(np.int32))
    e = build.ashr(build.sub(bits, at.integer(root)), at.integer(23))
    mantissa = build.bitcast(build.sub(bits, build.shl(e, at.integer(23))), at.kind)
    e = build.sub(e, build.select(tiny, at.integer(23), at.integer(0)))
    f = build.fsub(mantissa, at.number(1.0))
    square = build.fmul(f, f)
    tail = at.polynomial(_fit(_log_tail, math.sqrt(0.5) - 1, math.sqrt(2) - 1, 8), f)
    tail = build.fmul(build.fmul(tail, f), square)
    exponent = build.sitofp(e, at.kind)
    tail = at.fma(exponent, at.number(_LN2 - _LN2_HIGH), tail)
    tail = at.fma(square, at.number(-0.5), tail)
    result = build.fadd(build.fadd(f, tail), build.fmul(exponent, at.number(_LN2_HIGH)))
    for value, at_value in ((at.number(math.inf), math.inf), (at.number(-math.inf), 0.0)):
        same = build.fcmp_ordered("==", x, at.number(at_value))
        result = build.select(same, value, result)
    wrong = build.fcmp_unordered("<", x, at.number(0.0))  # or x is a NaN
    return build.select(wrong, at.number(math.nan), result)


def _tanh_tail(square: float) -> float:
    x = math.sqrt(square)
    if x < 0.05:
        return -1 / 3 + 2 / 15 * square - 17 / 315 * square**2 + 62 / 2835 * square**3
    return (math.tanh(x) / x - 1) / square


def _tanh(at: _Lanes, x: Any) -> Any:
    """Return x + x^3 P(x^2) near 0, elsewhere 1 - 2 / (exp(2 |x|) + 1) with the sign of x."""
    build = at.build
    size = at.magnitude(x)
    square = build.fmul(x, x)
    small = build.fmul(build.fmul(square, x), at.polynomial(_fit(_tanh_tail, 0.0, 0.4, 5), square))
    small = build.fadd(x, small)
    power = _exp(at, build.fadd(size, size))
    large = build.fdiv(at.number(2.0), build.fadd(power, at.number(1.0)))
    large = at.signed_as(build.fsub(at.number(1.0), large), x)
    near = build.fcmp_ordered("<", size, at.number(0.625))
    return build.select(near, small, large)


def _erf_near(square: float) -> float:
    x = math.sqrt(square)
    return math.erf(x) / x if x > 1e-4 else 2 / math.sqrt(math.pi) * (1 - square / 3)


def _erfc_scaled(t: float) -> float:
    """Return exp(x^2) erfc(x) at x = 1 / t."""
    return math.exp(1 / t**2) * math.erfc(1 / t)


def _erf(at: _Lanes, x: Any) -> Any:
    """Return x P(x^2) for |x| < 1 and elsewhere 1 - exp(-x^2) Q(1 / |x|) with the sign of x."""
    build = at.build
    size = at.clamp(at.magnitude(x), 0.0, 4.0)  # erf(4) is 1 in float32
    square = build.fmul(x, x)
    near = build.fmul(x, at.polynomial(_fit(_erf_near, 0.0, 1.0, 7), square))
    inverse = build.fdiv(at.number(1.0), size)
    tail = at.polynomial(_fit(_erfc_scaled, 0.25, 1.0, 9), inverse)
    below = _exp(at, build.fneg(build.fmul(size, size)))
    far = at.signed_as(build.fsub(at.number(1.0), build.fmul(below, tail)), x)
    result = build.select(build.fcmp_ordered("<", size, at.number(1.0)), near, far)
    return build.select(build.fcmp_unordered("uno", x, x), x, result)


_OF_FLOAT32: dict[str, Callable[[_Lanes, Any], Any]] = {
    "erf": _erf,
    "exp": _exp,
    "log": _log,
    "tanh": _tanh,
}
