"""What LLVM would call a library for, where a processor has no instruction: defined here instead.

LLVM turns such operations into calls of functions that a compiler's own library has, libgcc or
compiler-rt, and libm: rounding to integers before SSE4.1 and before ARMv8, half floats before F16C,
dividing integers and converting those of 64 bits on ARMv7. Generated code is linked with neither.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ll

from .functions import declared
from .halves import add_halves
from .target import Target
from .types import I32, I64

__all__ = ["add_fallbacks"]

_ROUNDINGS = ("llvm.ceil", "llvm.floor", "llvm.rint", "llvm.trunc")
_F32, _F64 = ll.FloatType(), ll.DoubleType()
# At and above these magnitudes every value of the type is an integer.
_ALL_INTEGERS = {_F32: 2.0**23, _F64: 2.0**52}


def add_fallbacks(module: ll.Module, target: Target) -> None:
    """Define in a module what its target has no instruction for; call it when all code is there.

    Parameters
    ----------
    module : llvmlite.ir.Module
        Changed in place.
    target : Target
    """
    if target.architecture == "armv7" or target.level == "x86-64":
        for function in list(module.functions):
            name = next((n for n in _ROUNDINGS if function.name.startswith(f"{n}.")), None)
            if name is not None and function.is_declaration:
                _rounding(module, function, name.removeprefix("llvm."))
    if target.level == "x86-64":
        add_halves(module)
    if target.architecture == "armv7":
        _divisions(module)
        _conversions(module)


def _rounding(module: ll.Module, function: Any, kind: str) -> None:
    """Turn an intrinsic into a function with a body: scalar, or of any number of lanes.

    Adding 2^23 to a float32 leaves it no bits for a fraction, so it is rounded to even, and
    subtracting brings it back.
    """
    before = function.name
    suffix = before.removeprefix(f"llvm.{kind}.")
    function.name = f"vdla.{kind}.{suffix}"
    module.globals[function.name] = module.globals.pop(before)
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    (x,) = function.args
    build = ll.IRBuilder(function.append_basic_block())
    scalar = x.type.element if isinstance(x.type, ll.VectorType) else x.type

    def constant(value: float) -> Any:
        if isinstance(x.type, ll.VectorType):
            return ll.Constant(x.type, [ll.Constant(scalar, value)] * x.type.count)
        return ll.Constant(scalar, value)

    def intrinsic(name: str, *arguments: Any) -> Any:
        full = f"{name}.{suffix}"
        kinds = [x.type] * len(arguments)
        return build.call(declared(module, full, x.type, kinds), arguments)

    magnitude = intrinsic("llvm.fabs", x)
    large = constant(_ALL_INTEGERS[scalar])
    nearest = build.fsub(build.fadd(magnitude, large), large)  # of the magnitude
    one, zero = constant(1.0), constant(0.0)
    if kind == "trunc":
        over = build.fcmp_ordered(">", nearest, magnitude)
        nearest = build.fsub(nearest, build.select(over, one, zero))
    signed = intrinsic("llvm.copysign", nearest, x)
    if kind in ("ceil", "floor"):
        wrong = build.fcmp_ordered(">" if kind == "floor" else "<", signed, x)
        moved = (build.fsub if kind == "floor" else build.fadd)(signed, one)
        # -0.5 goes up to -0.0.
        signed = intrinsic("llvm.copysign", build.select(wrong, moved, signed), x)
    small = build.fcmp_ordered("<", magnitude, large)  # not so are infinities and NaN
    build.ret(build.select(small, signed, x))


# Integers on ARMv7: the names and registers are those of the ARM run-time ABI. A pair in registers
# is what a structure of two becomes. Dividing by zero gives zero and leaves all.


def _helper(module: ll.Module, name: str, result: Any, *arguments: Any) -> Any:
    function = ll.Function(module, ll.FunctionType(result, list(arguments)), name)
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    return function


def _divisions(module: ll.Module) -> None:
    for whole, names in (
        (I32, ("__aeabi_uidivmod", "__aeabi_idivmod", "__aeabi_uidiv", "__aeabi_idiv")),
        (I64, ("__aeabi_uldivmod", "__aeabi_ldivmod")),
    ):
        both = ll.LiteralStructType([whole, whole])
        unsigned = _divide(module, names[0], whole, both)
        signed = _divide_signed(module, names[1], unsigned, whole, both)
        for name, divide in zip(names[2:], (unsigned, signed), strict=False):
            alone = _helper(module, name, whole, whole, whole)
            build = ll.IRBuilder(alone.append_basic_block())
            build.ret(build.extract_value(build.call(divide, alone.args), 0))


def _divide(module: ll.Module, name: str, whole: Any, both: Any) -> Any:
    """Subtract the divisor, shifted, from the highest bit that can be one downwards."""
    function = _helper(module, name, both, whole, whole)
    n, d = function.args
    entry, loop, done = (function.append_basic_block(x) for x in ("entry", "loop", "done"))
    build = ll.IRBuilder(entry)
    zero, one = ll.Constant(whole, 0), ll.Constant(whole, 1)
    leading = module.declare_intrinsic(
        "llvm.ctlz", [whole], ll.FunctionType(whole, [whole, ll.IntType(1)])
    )
    no = ll.Constant(ll.IntType(1), 0)
    start = build.sub(build.call(leading, [d, no]), build.call(leading, [n, no]))
    nothing = build.or_(build.icmp_unsigned("<", n, d), build.icmp_unsigned("==", d, zero))
    build.cbranch(nothing, done, loop)

    build.position_at_end(loop)
    rest, quotient, shift = build.phi(whole), build.phi(whole), build.phi(whole)
    trial = build.shl(d, shift)
    fits = build.icmp_unsigned(">=", rest, trial)
    less = build.select(fits, build.sub(rest, trial), rest)
    more = build.or_(build.shl(quotient, one), build.zext(fits, whole))
    next_shift = build.sub(shift, one)
    for phi, first, following in (
        (rest, n, less),
        (quotient, zero, more),
        (shift, start, next_shift),
    ):
        phi.add_incoming(first, entry)
        phi.add_incoming(following, loop)
    build.cbranch(build.icmp_unsigned("==", shift, zero), done, loop)

    build.position_at_end(done)
    q, r = build.phi(whole), build.phi(whole)
    for phi, first, following in ((q, zero, more), (r, n, less)):
        phi.add_incoming(first, entry)
        phi.add_incoming(following, loop)
    _return_both(build, both, q, r)
    return function


def _divide_signed(module: ll.Module, name: str, unsigned: Any, whole: Any, both: Any) -> Any:
    """Divide magnitudes; the quotient rounds towards zero, the rest has the dividend's sign."""
    function = _helper(module, name, both, whole, whole)
    n, d = function.args
    build = ll.IRBuilder(function.append_basic_block())
    last = ll.Constant(whole, whole.width - 1)
    sign_n, sign_d = build.ashr(n, last), build.ashr(d, last)

    def negated_where(value: Any, sign: Any) -> Any:
        return build.sub(build.xor(value, sign), sign)

    result = build.call(unsigned, [negated_where(n, sign_n), negated_where(d, sign_d)])
    quotient = negated_where(build.extract_value(result, 0), build.xor(sign_n, sign_d))
    rest = negated_where(build.extract_value(result, 1), sign_n)
    _return_both(build, both, quotient, rest)
    return function


def _return_both(build: Any, both: Any, first: Any, second: Any) -> None:
    pair = build.insert_value(ll.Constant(both, ll.Undefined), first, 0)
    build.ret(build.insert_value(pair, second, 1))


def _conversions(module: ll.Module) -> None:
    for kind, letter in ((_F32, "f"), (_F64, "d")):
        for signed in (True, False):
            unsigned = "" if signed else "u"
            _to_float(module, f"__aeabi_{unsigned}l2{letter}", kind, signed)
            _to_integer(module, f"__aeabi_{letter}2{unsigned}lz", kind, signed)


def _to_float(module: ll.Module, name: str, kind: Any, signed: bool) -> None:
    """Convert an integer of 64 bits, rounded once, by way of float64.

    A float64 has room for 53 bits. For a float32 the last 11 become one that says whether any of
    them is set, which leaves the second rounding as it would be without the first.
    """
    function = _helper(module, name, I32 if kind is _F32 else I64, I64)
    (x,) = function.args
    build = ll.IRBuilder(function.append_basic_block())
    if kind is _F32:
        low = build.and_(x, ll.Constant(I64, 0x7FF))
        high = build.and_(x, ll.Constant(I64, -0x800))
        sticky = build.zext(build.icmp_unsigned("!=", low, ll.Constant(I64, 0)), I64)
        marked = build.or_(high, build.shl(sticky, ll.Constant(I64, 11)))
        limit = ll.Constant(I64, 1 << 53)
        magnitude = x
        if signed:
            negative = build.icmp_signed("<", x, ll.Constant(I64, 0))
            magnitude = build.select(negative, build.neg(x), x)
        x = build.select(build.icmp_unsigned("<", magnitude, limit), x, marked)
    upper = build.trunc(build.lshr(x, ll.Constant(I64, 32)), I32)
    lower = build.uitofp(build.trunc(x, I32), _F64)
    top = build.sitofp(upper, _F64) if signed else build.uitofp(upper, _F64)
    total = build.fadd(build.fmul(top, ll.Constant(_F64, 2.0**32)), lower)
    if kind is _F32:
        build.ret(build.bitcast(build.fptrunc(total, _F32), I32))
    else:
        build.ret(build.bitcast(total, I64))


def _to_integer(module: ll.Module, name: str, kind: Any, signed: bool) -> None:
    """Convert to an integer of 64 bits, towards zero; what does not fit is any number."""
    function = _helper(module, name, I64, I32 if kind is _F32 else I64)
    build = ll.IRBuilder(function.append_basic_block())
    x = build.bitcast(function.args[0], kind)
    wide = build.fpext(x, _F64) if kind is _F32 else x
    zero = ll.Constant(_F64, 0.0)
    negative = build.fcmp_ordered("<", wide, zero)
    magnitude = build.select(negative, build.fneg(wide), wide) if signed else wide
    top = build.fptoui(build.fmul(magnitude, ll.Constant(_F64, 2.0**-32)), I32)
    rest = build.fsub(magnitude, build.fmul(build.uitofp(top, _F64), ll.Constant(_F64, 2.0**32)))
    lower = build.fptoui(rest, I32)
    upper = build.shl(build.zext(top, I64), ll.Constant(I64, 32))
    value = build.or_(upper, build.zext(lower, I64))
    build.ret(build.select(negative, build.neg(value), value) if signed else value)
