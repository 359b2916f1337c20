"""Conversions between dtypes in LLVM IR."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import llvmlite.ir as ll

from vdla.compiler.te.ranges import dtype_range

from .functions import declared
from .types import I32, register_type

__all__ = ["convert", "lane_order", "splat", "wrapped"]


def splat(builder: ll.IRBuilder, value: Any, lanes: int | None) -> Any:
    """Return a vector with a scalar in every lane; a vector, or no lanes, changes nothing."""
    if lanes is None or isinstance(value.type, ll.VectorType):
        return value
    if isinstance(value, ll.Constant):
        return _repeated(value, lanes)
    undefined = ll.Constant(ll.VectorType(value.type, lanes), ll.Undefined)
    one = builder.insert_element(undefined, value, ll.Constant(I32, 0))
    return builder.shuffle_vector(one, undefined, lane_order((0,) * lanes))


@lru_cache(maxsize=1 << 10)
def _repeated(value: ll.Constant, lanes: int) -> ll.Constant:
    return ll.Constant(ll.VectorType(value.type, lanes), [value] * lanes)


@lru_cache(maxsize=1 << 10)
def lane_order(lanes: tuple[int, ...]) -> ll.Constant:
    """Return which lanes a shuffle takes, as its operand; it keeps its text."""
    return ll.Constant(ll.VectorType(I32, len(lanes)), list(lanes))


def _bits(dtype: str) -> int:
    return 1 if dtype == "bool" else int(dtype.lstrip("uintfloa"))


def convert(builder: ll.IRBuilder, value: Any, source: str, target: str) -> Any:
    """Return a value, or a vector of them, in another dtype.

    Integers saturate; a float becomes an integer towards zero, saturated, and NaN becomes 0;
    anything but zero becomes True.
    """
    if source == target:
        return value
    count = value.type.count if isinstance(value.type, ll.VectorType) else None
    wanted = register_type(target)
    shaped = wanted if count is None else ll.VectorType(wanted, count)
    from_float, to_float = source.startswith("float"), target.startswith("float")
    zero = ll.Constant(value.type, None)
    if target == "bool":
        if from_float:
            return builder.fcmp_unordered("!=", value, zero)
        return builder.icmp_signed("!=", value, zero)
    if from_float and to_float:
        if (source, target) == ("float64", "float16"):
            value = _single_to_odd(builder, value, count)
        narrow = _bits(target) < _bits(source)
        return (builder.fptrunc if narrow else builder.fpext)(value, shaped)
    unsigned = source[0] in "ub"
    if to_float:
        return (builder.uitofp if unsigned else builder.sitofp)(value, shaped)
    if from_float:
        if _bits(target) <= 16 or target == "int32":
            return _saturated(builder, value, source, target, count)
        name = "llvm.fptoui.sat" if target[0] == "u" else "llvm.fptosi.sat"
        suffix = f"{_suffix(wanted, count)}.{_suffix(register_type(source), count)}"
        function = declared(builder.module, f"{name}.{suffix}", shaped, [value.type])
        return builder.call(function, [value])
    return _between_integers(builder, value, source, target, shaped)


def _saturated(
    builder: ll.IRBuilder, value: Any, source: str, target: str, count: int | None
) -> Any:
    """Return floats as integers of at most 32 bits, held to their range first.

    LLVM has an intrinsic for it, which it does a lane at a time where the processor has no such
    instruction.
    """
    if source == "float16":
        value = builder.fpext(value, _shaped(ll.FloatType(), count))
        source = "float32"
    scalar = register_type(source)

    def number(x: float) -> Any:
        return splat(builder, ll.Constant(scalar, x), count)

    least, greatest = dtype_range(target)
    # The greatest int32 is no float32; the one below it is brought up to it at last.
    rounded = source == "float32" and target == "int32"
    most = 2147483520.0 if rounded else float(greatest)
    held = builder.select(builder.fcmp_ordered("ord", value, value), value, number(0.0))
    for sign, bound in (("<", float(least)), (">", most)):
        limit = number(bound)
        held = builder.select(builder.fcmp_ordered(sign, held, limit), limit, held)
    whole = builder.fptosi(held, _shaped(I32, count))
    if rounded:
        over = builder.fcmp_ordered(">", value, number(most))
        whole = builder.select(over, splat(builder, ll.Constant(I32, greatest), count), whole)
    return (
        builder.trunc(whole, _shaped(register_type(target), count)) if target != "int32" else whole
    )


def _shaped(kind: Any, count: int | None) -> Any:
    return kind if count is None else ll.VectorType(kind, count)


def _single_to_odd(builder: ll.IRBuilder, value: Any, count: int | None) -> Any:
    """Return a double as a float that rounds to the same half: the lost bits make the last one odd.

    Processors have no instruction from double to half. In two steps of rounding to the nearest, a
    number just beside a tie of halves would become the tie. Source: Boldo and Melquiond, Emulation
    of FMA and correctly rounded sums, 2008.
    """

    def splatted(number: int) -> Any:
        return splat(builder, ll.Constant(I32, number), count)

    single = builder.fptrunc(value, _shaped(ll.FloatType(), count))
    back = builder.fpext(single, value.type)
    bits = builder.bitcast(single, _shaped(I32, count))
    size, before = (_intrinsic(builder, "llvm.fabs", x, count) for x in (back, value))
    beyond = builder.fcmp_ordered(">", size, before)
    towards_zero = builder.select(beyond, builder.sub(bits, splatted(1)), bits)
    lost = builder.fcmp_unordered("!=", back, value)
    odd = builder.select(lost, builder.or_(towards_zero, splatted(1)), bits)
    return builder.bitcast(odd, single.type)


def _intrinsic(builder: ll.IRBuilder, name: str, value: Any, count: int | None) -> Any:
    scalar = value.type if count is None else value.type.element
    full = f"{name}.{_suffix(scalar, count)}"
    function = declared(builder.module, full, value.type, [value.type])
    return builder.call(function, [value])


def _suffix(kind: Any, count: int | None) -> str:
    names = {"half": "f16", "float": "f32", "double": "f64"}
    name = names.get(str(kind), str(kind))
    return name if count is None else f"v{count}{name}"


def _between_integers(
    builder: ll.IRBuilder, value: Any, source: str, target: str, shaped: Any
) -> Any:
    (low, high), (least, greatest) = dtype_range(source), dtype_range(target)
    count = value.type.count if isinstance(value.type, ll.VectorType) else None
    unsigned = source[0] in "ub"
    compare = builder.icmp_unsigned if unsigned else builder.icmp_signed
    scalar = register_type(source)
    if least > low:
        bound = splat(builder, ll.Constant(scalar, least), count)
        value = builder.select(compare(">", value, bound), value, bound)
    if greatest < high:
        bound = splat(builder, ll.Constant(scalar, greatest), count)
        value = builder.select(compare("<", value, bound), value, bound)
    if _bits(target) > _bits(source):
        return (builder.zext if unsigned else builder.sext)(value, shaped)
    return builder.trunc(value, shaped) if _bits(target) < _bits(source) else value


def wrapped(builder: ll.IRBuilder, value: Any, source: str, target: str) -> Any:
    """Return an integer's low bits as another integer dtype."""
    wanted = register_type(target)
    if isinstance(value.type, ll.VectorType):
        wanted = ll.VectorType(wanted, value.type.count)
    if _bits(target) > _bits(source):
        return (builder.zext if source[0] in "ub" else builder.sext)(value, wanted)
    return builder.trunc(value, wanted) if _bits(target) < _bits(source) else value
