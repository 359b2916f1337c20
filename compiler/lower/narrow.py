"""Quotients, remainders, bounds and conditions that the loops around them settle."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.ir.linear import const_bounds, is_data, simplify
from vdla.compiler.ir.stmt import Alloc, Block, For, If, Stmt, map_indices
from vdla.compiler.te.expr import Binary, Const, Expr, Select, Var
from vdla.compiler.te.traverse import map_expr
from vdla.errors import LoweringError

__all__ = ["narrow"]

_Loops = tuple[tuple[Var, Expr], ...]


def narrow(body: Stmt) -> Stmt:
    """Use the ranges of loop variables to simplify what is computed with them.

    Before::

        for l in 16: b[16 * (l // 16) + l % 16] = select(l < 20, a[l], 0)

    After::

        for l in 16: b[l] = a[l]
    """
    return _statement(body, ())


def _statement(stmt: Stmt, loops: _Loops) -> Stmt:
    if isinstance(stmt, Block):
        return Block(tuple(_statement(child, loops) for child in stmt.stmts))
    if isinstance(stmt, For):
        extent = _settled(stmt.extent, loops)
        inner = (*loops, (stmt.var, extent))
        return For(stmt.var, extent, _statement(stmt.body, inner), stmt.kind)
    if isinstance(stmt, If):
        condition = _settled(stmt.condition, loops)
        if isinstance(condition, Const):
            return _statement(stmt.then if condition.value else stmt.other, loops)
        return If(condition, _statement(stmt.then, loops), _statement(stmt.other, loops))
    if isinstance(stmt, Alloc):
        return replace(stmt, body=_statement(stmt.body, loops))
    return map_indices(stmt, lambda e: _settled(e, loops), lambda e: _value(e, loops))


def _settled(expr: Expr, loops: _Loops) -> Expr:
    return simplify(_value(expr, loops))


def _value(expr: Expr, loops: _Loops) -> Expr:
    def visit(part: Expr) -> Expr | None:
        if isinstance(part, Select):
            condition = _value(part.condition, loops)
            if isinstance(condition, Const):
                return _value(part.then if condition.value else part.other, loops)
            return Select(condition, _value(part.then, loops), _value(part.other, loops))
        if isinstance(part, Binary) and part.op in _RULES and part.a.dtype.startswith("int"):
            a, b = simplify(_value(part.a, loops)), simplify(_value(part.b, loops))
            return _binary(part.op, a, b, loops)
        return None

    return map_expr(expr, visit)


_RULES = ("//", "%", "min", "max", "<", "<=", "==")


def _binary(op: str, a: Expr, b: Expr, loops: _Loops) -> Expr | None:
    """Return what an operation comes to, or the operation of the simplified operands."""
    kept = Binary(op, a, b)
    if is_data(a) or is_data(b):
        return kept
    try:
        if op in ("//", "%"):
            return _divided(kept, loops)
        low, high = const_bounds(a - b, loops)
    except LoweringError:
        return kept
    if op in ("min", "max"):
        if high <= 0:
            return a if op == "min" else b
        if low >= 0:
            return b if op == "min" else a
        return kept
    certain = {"<": high < 0, "<=": high <= 0, "==": low == high == 0}[op]
    impossible = {"<": low >= 0, "<=": low > 0, "==": low > 0 or high < 0}[op]
    return Const(int(certain), "bool") if certain or impossible else kept


def _divided(kept: Binary, loops: _Loops) -> Expr:
    if not isinstance(kept.b, Const) or kept.b.value <= 0:
        return kept
    by = kept.b.value
    low, high = const_bounds(kept.a, loops)
    if low // by != high // by:
        return kept
    quotient = low // by
    return Const(quotient, kept.dtype) if kept.op == "//" else kept.a - quotient * by
