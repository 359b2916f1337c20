"""Expressions of one element, or of a vector of elements, in LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import llvmlite.ir as ll

from vdla.compiler.ir.linear import uses
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.te.expr import Binary, Call, Cast, Const, Expr, Pick, Real, Select, Var
from vdla.compiler.te.traverse import walk
from vdla.errors import LoweringError

from .convert import convert, splat, wrapped
from .index import IndexEmitter, divide, is_index
from .maths import call_function
from .types import register_type

__all__ = ["ElementEmitter", "combine"]

CONTRACT = ("contract",)
"""A product and a sum may be rounded once, as the reference's tolerance allows."""


class ElementEmitter:
    """Emits the value of a store.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    bindings : mapping of Var to int, Lanes or llvmlite.ir.Value
    load : callable
        Emits the store's load of a position: a scalar, or a vector of `lanes`.
    lane : Var or None
        The vectorized loop around the store.
    """

    def __init__(
        self,
        builder: ll.IRBuilder,
        bindings: Mapping[Var, Any],
        load: Callable[[int], Any],
        lane: Var | None = None,
    ) -> None:
        self._builder, self._load, self._lane = builder, load, lane
        self._bindings = bindings
        self._index = IndexEmitter(builder, bindings)
        self._made: dict[Expr, Any] = {}

    def emit(self, expr: Expr) -> Any:
        """Return the value of an expression; equal ones are computed once."""
        if expr not in self._made:
            self._made[expr] = self._emit(expr)
        return self._made[expr]

    def _emit(self, expr: Expr) -> Any:
        if isinstance(expr, Const):
            return ll.Constant(register_type(expr.dtype), expr.value)
        if isinstance(expr, Real):
            return ll.Constant(register_type(expr.dtype), expr.value)
        if is_index(expr):
            return self._from_index(self._index.emit(expr), expr.dtype)
        if isinstance(expr, Binary):
            return self._binary(expr)
        if isinstance(expr, Cast):
            return convert(self._builder, self.emit(expr.value), expr.value.dtype, expr.dtype)
        if isinstance(expr, Select):
            return self._select(expr)
        if isinstance(expr, Call) and expr.name == "load":
            return self._load(dict(expr.attrs)["position"])
        if isinstance(expr, Call) and expr.name == "wrap":
            (whole,) = expr.args
            return wrapped(self._builder, self.emit(whole), whole.dtype, expr.dtype)
        if isinstance(expr, Call):
            args = self._matched(*(self.emit(arg) for arg in expr.args))
            return call_function(self._builder, expr.name, args, expr.dtype)
        if isinstance(expr, Pick):
            raise LoweringError(
                f"What a pick chooses by must be made of loop variables, not {expr_text(expr)}."
            )
        raise LoweringError(f"Only expressions of one element can be compiled, not {expr!r}.")

    def _from_index(self, value: Any, dtype: str) -> Any:
        """Bring an index to the type of a value: 64 bits to the dtype's."""
        wanted = register_type(dtype)
        if isinstance(value, int):
            return ll.Constant(wanted, value)
        if isinstance(value.type, ll.VectorType):
            wanted = ll.VectorType(wanted, value.type.count)
        return value if value.type == wanted else self._builder.trunc(value, wanted)

    def _matched(self, *values: Any) -> list[Any]:
        lanes = next((v.type.count for v in values if isinstance(v.type, ll.VectorType)), None)
        return [splat(self._builder, value, lanes) for value in values]

    def _binary(self, expr: Binary) -> Any:
        a, b = self._matched(self.emit(expr.a), self.emit(expr.b))
        dtype = expr.a.dtype
        if dtype.startswith("float"):
            return self._of_floats(expr, a, b)
        build, unsigned = self._builder, dtype.startswith(("u", "bool"))
        simple = {"+": build.add, "-": build.sub, "*": build.mul, "and": build.and_}
        if expr.op in simple:
            return simple[expr.op](a, b)
        compare = build.icmp_unsigned if unsigned else build.icmp_signed
        if expr.op in ("<", "<=", "=="):
            return compare(expr.op, a, b)
        if expr.op in ("min", "max"):
            return least_or_greatest(build, expr.op, a, b, dtype)
        if expr.op in (">>", "<<"):
            return self._shifted(expr, a, b, unsigned)
        if unsigned:
            return (build.udiv if expr.op == "//" else build.urem)(a, b)
        return divide(build, expr.op, a, b)

    def _shifted(self, expr: Binary, a: Any, b: Any, unsigned: bool) -> Any:
        build = self._builder
        right = build.lshr if unsigned else build.ashr
        ways = (right, build.shl) if expr.op == ">>" else (build.shl, right)
        if isinstance(expr.b, Const):
            amount = abs(expr.b.value)
            way = ways[0] if expr.b.value >= 0 else ways[1]
            (_, by) = self._matched(a, ll.Constant(register_type(expr.dtype), amount))
            return way(a, by)
        zero = ll.Constant(b.type, None)
        return build.select(
            build.icmp_signed("<", b, zero), ways[1](a, build.neg(b)), ways[0](a, b)
        )

    def _of_floats(self, expr: Binary, a: Any, b: Any) -> Any:
        build = self._builder
        if expr.op in ("+", "-", "*"):
            make = {"+": build.fadd, "-": build.fsub, "*": build.fmul}[expr.op]
            return make(a, b, flags=CONTRACT)
        if expr.op == "/":
            return build.fdiv(a, b)
        if expr.op in ("<", "<=", "=="):
            return build.fcmp_ordered(expr.op, a, b)
        if expr.op in ("min", "max"):
            return least_or_greatest(build, expr.op, a, b, expr.a.dtype)
        raise LoweringError(f"{expr.op} must be of integers, not of {expr.a.dtype}.")

    def _select(self, expr: Select) -> Any:
        condition = (
            self._index.emit(expr.condition)
            if is_index(expr.condition)
            else self.emit(expr.condition)
        )
        if isinstance(condition, int):
            return self.emit(expr.then if condition else expr.other)
        vector = isinstance(condition.type, ll.VectorType)
        if vector or not (_loads(expr.then) or _loads(expr.other)):
            values = self.emit(expr.then), self.emit(expr.other)
            if vector:
                lanes = condition.type.count
                return self._builder.select(
                    condition, *(splat(self._builder, value, lanes) for value in values)
                )
            return self._builder.select(condition, *self._matched(*values))
        return self._branch(condition, expr)

    def _branch(self, condition: Any, expr: Select) -> Any:
        """Emit a select as control flow, so that what is not chosen is not read."""
        build = self._builder
        before = dict(self._made)
        ends: list[tuple[Any, Any]] = []
        with build.if_else(condition) as (then, other):
            for block, part in ((then, expr.then), (other, expr.other)):
                with block:
                    self._made = dict(before)
                    value = self.emit(part)
                    if self._lane is not None and self._varies(expr):
                        lanes = int(self._bindings[self._lane])
                        value = splat(build, value, lanes)
                    ends.append((value, build.block))
        self._made = before
        phi = build.phi(ends[0][0].type)
        for value, block in ends:
            phi.add_incoming(value, block)
        return phi

    def _varies(self, expr: Select) -> bool:
        """Tell whether a branch may hold a vector: then both give one."""
        assert self._lane is not None
        return uses(expr, (self._lane,)) or _loads(expr)


def _loads(expr: Expr) -> bool:
    return any(isinstance(part, Call) and part.name == "load" for part in walk(expr))


def least_or_greatest(builder: ll.IRBuilder, op: str, a: Any, b: Any, dtype: str) -> Any:
    """Return the smaller or greater of two values; of floats, NaN where one is."""
    sign = "<" if op == "min" else ">"
    if not dtype.startswith("float"):
        compare = builder.icmp_unsigned if dtype.startswith("u") else builder.icmp_signed
        return builder.select(compare(sign, a, b), a, b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, ll.Constant):  # not a NaN: one comparison is enough
            return builder.select(builder.fcmp_ordered(sign, one, other), one, other)
    first = builder.select(builder.fcmp_ordered(sign, a, b), a, b)  # b where one is a NaN
    return builder.select(builder.fcmp_unordered("uno", a, a), a, first)


def combine(builder: ll.IRBuilder, kind: str, total: Any, value: Any, dtype: str) -> Any:
    """Return a reduction's result so far with one more source."""
    if kind != "sum":
        return least_or_greatest(builder, kind, total, value, dtype)
    if dtype.startswith("float"):
        return builder.fadd(total, value, flags=CONTRACT)
    return builder.add(total, value)
