"""Index arithmetic in 64 bits; what is constant after unrolling stays a Python integer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llvmlite.ir as ll

from vdla.compiler.ir.linear import is_data, variables
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.te.expr import FOLD, Binary, Call, Cast, Const, Expr, Pick, Select, Var
from vdla.errors import LoweringError

from .convert import convert, splat
from .types import I64

__all__ = ["IndexEmitter", "Known", "Lanes", "divide", "is_index"]

Index = Any
"""A Python integer, an i64, or a vector of i64, one a lane."""


class Lanes(int):
    """What a vectorized loop's variable is bound to: it takes as many values at once.

    It equals nothing but itself: 4 lanes are not lane 4.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Known:
    """Values of indices in the block where instructions go: unrolled code uses the same often."""

    def __init__(self) -> None:
        self._block: Any = None
        self._places: dict[Any, Index] = {}

    def here(self, builder: ll.IRBuilder) -> dict[Any, Index]:
        """Return the values by expression and bindings; none at the start of a block."""
        if builder.block is not self._block:
            self._block, self._places = builder.block, {}
        return self._places


def is_index(expr: Expr) -> bool:
    """Tell whether an expression is made of loop variables and constants alone."""
    if isinstance(expr, (Const, Var)):
        return True
    if isinstance(expr, Binary):
        return is_index(expr.a) and is_index(expr.b)
    if isinstance(expr, Select):
        return all(map(is_index, (expr.condition, expr.then, expr.other)))
    if isinstance(expr, Cast):
        return expr.dtype in ("int32", "int64") and is_index(expr.value)
    return isinstance(expr, Pick) and is_index(expr.index)


class IndexEmitter:
    """Emits index expressions.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        Stands where instructions go.
    bindings : mapping of Var to int, Lanes or llvmlite.ir.Value
        What each loop variable is at present.
    data : callable, optional
        Emits a call in an index, such as a load: an index that is data.
    known : Known, optional
        What has been emitted before.
    """

    def __init__(
        self,
        builder: ll.IRBuilder,
        bindings: Mapping[Var, Any],
        data: Callable[[Call], Any] | None = None,
        known: Known | None = None,
    ) -> None:
        self._builder, self._bindings, self._data = builder, bindings, data
        self._known = known

    def emit(self, expr: Expr) -> Index:
        """Return the value of an index expression."""
        if isinstance(expr, Const):
            return expr.value
        if isinstance(expr, Var):
            bound = self._bindings[expr]
            if isinstance(bound, Lanes):
                return ll.Constant(ll.VectorType(I64, bound), list(range(bound)))
            return bound
        if isinstance(expr, Binary):
            return self._remembered(expr)
        if isinstance(expr, Select):
            condition = self.emit(expr.condition)
            if isinstance(condition, int):
                return self.emit(expr.then if condition else expr.other)
            then, other = self._matched(self.emit(expr.then), self.emit(expr.other))
            return self._builder.select(condition, then, other)
        if isinstance(expr, Cast):
            return self.emit(expr.value)
        if isinstance(expr, Pick):
            return self._pick(expr.values, self.emit(expr.index))
        if isinstance(expr, Call) and self._data is not None:
            return convert(self._builder, self._data(expr), expr.dtype, "int64")
        raise LoweringError(
            f"An index must be made of loop variables and constants, not {expr_text(expr)}."
        )

    def _remembered(self, expr: Binary) -> Index:
        if self._known is None or is_data(expr):
            return self._binary(expr)
        places = self._known.here(self._builder)
        key = (expr, *(self._bindings[var] for var in variables(expr)))
        if key not in places:
            places[key] = self._binary(expr)
        return places[key]

    def _matched(self, *values: Index) -> list[Index]:
        """Bring values to one type: integers become i64, scalars fill a vector."""
        lanes = next((v.type.count for v in values if _is_vector(v)), None)
        return [splat(self._builder, _constant(v), lanes) for v in values]

    def _pick(self, values: Sequence[int], index: Index) -> Index:
        if isinstance(index, int):
            return values[index]
        if _is_vector(index):
            result: Index = ll.Constant(ll.VectorType(I64, index.type.count), ll.Undefined)
            for k in range(index.type.count):
                at = ll.Constant(I64, k)
                one = self._pick(values, self._builder.extract_element(index, at))
                result = self._builder.insert_element(result, _constant(one), at)
            return result
        table = ll.Constant(ll.ArrayType(I64, len(values)), list(values))
        module = self._builder.module
        held = ll.GlobalVariable(module, table.type, module.get_unique_name("table"))
        held.initializer, held.global_constant, held.linkage = table, True, "internal"
        where = self._builder.gep(held, [ll.Constant(I64, 0), index], source_etype=table.type)
        return self._builder.load(where, typ=I64)

    def _binary(self, expr: Binary) -> Index:
        a, b = self.emit(expr.a), self.emit(expr.b)
        if isinstance(a, int) and isinstance(b, int):
            return FOLD[expr.op](a, b)
        op, build = expr.op, self._builder
        if op == "*" and isinstance(a, int) and a == 1:
            return b
        if op == "*" and isinstance(b, int) and b == 1:
            return a
        left, right = self._matched(a, b)
        if op in ("+", "-", "*"):
            return {"+": build.add, "-": build.sub, "*": build.mul}[op](left, right)
        if op in ("<", "<=", "=="):
            return build.icmp_signed(op, left, right)
        if op in ("min", "max"):
            smaller = build.icmp_signed("<", left, right)
            return build.select(smaller, *((left, right) if op == "min" else (right, left)))
        if op == "and":
            return self._both(a, b)
        if op in (">>", "<<"):
            return {">>": build.ashr, "<<": build.shl}[op](left, right)
        return divide(build, op, left, right)

    def _both(self, a: Index, b: Index) -> Index:
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int):
                return other if one else 0
        if _is_vector(a) != _is_vector(b):
            lanes = (a if _is_vector(a) else b).type.count
            a, b = (splat(self._builder, value, lanes) for value in (a, b))
        return self._builder.and_(a, b)


def _is_vector(value: Index) -> bool:
    return not isinstance(value, int) and isinstance(value.type, ll.VectorType)


def _constant(value: Index) -> Any:
    return ll.Constant(I64, value) if isinstance(value, int) else value


def divide(builder: ll.IRBuilder, op: str, a: Any, b: Any) -> Any:
    """Return ``a // b`` or ``a % b``, rounding down, of integers of one type."""
    power = _power_of_two(b)
    if power is not None:
        if op == "//":
            return builder.ashr(a, _like(b, power))
        return builder.and_(a, _like(b, (1 << power) - 1))
    remainder = builder.srem(a, b)
    zero = _like(b, 0)
    # The remainder has the sign of a: where it is not that of b, round down instead.
    differ = builder.icmp_signed("<", builder.xor(remainder, b), zero)
    over = builder.and_(builder.icmp_signed("!=", remainder, zero), differ)
    if op == "%":
        return builder.select(over, builder.add(remainder, b), remainder)
    quotient = builder.sdiv(a, b)
    return builder.select(over, builder.sub(quotient, _like(b, 1)), quotient)


def _like(value: Any, number: int) -> Any:
    if isinstance(value.type, ll.VectorType):
        return ll.Constant(value.type, [ll.Constant(value.type.element, number)] * value.type.count)
    return ll.Constant(value.type, number)


def _power_of_two(value: Any) -> int | None:
    if not isinstance(value, ll.Constant):
        return None
    number = value.constant[0] if isinstance(value.type, ll.VectorType) else value.constant
    number = number.constant if isinstance(number, ll.Constant) else number
    if isinstance(value.type, ll.VectorType) and len({str(c) for c in value.constant}) > 1:
        return None
    if isinstance(number, int) and number > 0 and number & (number - 1) == 0:
        return number.bit_length() - 1
    return None
