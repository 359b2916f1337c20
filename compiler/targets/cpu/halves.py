"""Half floats where a processor has no instruction for them: x86-64 before F16C."""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ll

from .types import I32

__all__ = ["add_halves"]

_I16, _F16, _F32 = ll.IntType(16), ll.HalfType(), ll.FloatType()


def add_halves(module: ll.Module) -> None:
    """Define the functions that LLVM converts half floats with, by the names it calls them by."""
    _widen(module)
    _narrow(module)


def _function(module: ll.Module, name: str, result: Any, argument: Any) -> Any:
    function = ll.Function(module, ll.FunctionType(result, [argument]), name)
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    return function


def _bits(value: int) -> Any:
    return ll.Constant(I32, value)


def _number(build: ll.IRBuilder, bits: int) -> Any:
    return build.bitcast(_bits(bits), _F32)


def _widen(module: ll.Module) -> None:
    """A half's exponent and fraction, moved to a float's place, make a number 2^-112 as large."""
    function = _function(module, "__extendhfsf2", _F32, _F16)
    build = ll.IRBuilder(function.append_basic_block())
    given = build.zext(build.bitcast(function.args[0], _I16), I32)
    sign = build.shl(build.and_(given, _bits(0x8000)), _bits(16))
    size = build.shl(build.and_(given, _bits(0x7FFF)), _bits(13))
    scaled = build.fmul(build.bitcast(size, _F32), _number(build, (127 + 112) << 23))
    finite = build.bitcast(scaled, I32)
    infinite = build.or_(size, _bits(0xFF << 23))
    special = build.icmp_unsigned(">=", size, _bits(0x7C00 << 13))
    result = build.or_(sign, build.select(special, infinite, finite))
    build.ret(build.bitcast(result, _F32))


def _narrow(module: ll.Module) -> None:
    """Round to the nearest half, ties to even.

    Below the least normal half, adding 1/2 leaves a float no bits beyond a half's; elsewhere what
    is to be cut off rounds up by a carry, which goes on into the exponent.
    """
    function = _function(module, "__truncsfhf2", _F16, _F32)
    build = ll.IRBuilder(function.append_basic_block())
    given = build.bitcast(function.args[0], I32)
    size = build.and_(given, _bits(0x7FFFFFFF))
    sign = build.lshr(build.and_(given, _bits(0x80000000)), _bits(16))
    raised = build.fadd(build.bitcast(size, _F32), _number(build, 126 << 23))
    tiny = build.sub(build.bitcast(raised, I32), _bits(126 << 23))
    even = build.and_(build.lshr(size, _bits(13)), _bits(1))
    moved = build.sub(size, _bits((127 - 15) << 23))
    normal = build.lshr(build.add(build.add(moved, _bits(0xFFF)), even), _bits(13))
    nothing = build.or_(build.lshr(build.and_(size, _bits(0x7FFFFF)), _bits(13)), _bits(0x7E00))
    result = build.select(build.icmp_unsigned("<", size, _bits(113 << 23)), tiny, normal)
    large = build.icmp_unsigned(">=", size, _bits((127 + 16) << 23))
    result = build.select(large, _bits(0x7C00), result)
    result = build.select(build.icmp_unsigned(">", size, _bits(0xFF << 23)), nothing, result)
    narrow = build.trunc(build.or_(sign, result), _I16)
    build.ret(build.bitcast(narrow, _F16))
