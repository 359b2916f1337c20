"""Loops of a constant number of iterations, where a split left a shorter last tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from vdla.compiler.ir.evaluate import Evaluator
from vdla.compiler.ir.linear import simplify
from vdla.compiler.ir.stmt import (
    Access,
    Alloc,
    Block,
    For,
    If,
    Stmt,
    children,
)
from vdla.compiler.te.expr import Const, Expr, Var, binary
from vdla.compiler.te.traverse import map_expr, walk

__all__ = ["version_tails"]

_Loops = tuple[tuple[Var, Expr], ...]
_MOST_STEPS = 1 << 16


def version_tails(body: Stmt) -> Stmt:
    """Give whole tiles and the last one code of their own, so that both can be unrolled.

    Before::

        for o in 3:
          for i in min(4, 10 - 4 * o) (unroll): b[4 * o + i] = ...

    After::

        for o in 3:
          if 4 <= min(4, 10 - 4 * o):
            for i in 4: b[4 * o + i] = ...
          else:
            for i in 2: b[4 * o + i] = ...

    An extent that takes more than two values stays as it is, and so does that of a plain loop.
    """
    return _visit(body, ())


def _visit(stmt: Stmt, loops: _Loops) -> Stmt:
    if isinstance(stmt, Block):
        return Block(tuple(_visit(child, loops) for child in stmt.stmts))
    if isinstance(stmt, If):
        return If(stmt.condition, _visit(stmt.then, loops), _visit(stmt.other, loops))
    if isinstance(stmt, Alloc):
        return replace(stmt, body=_visit(stmt.body, loops))
    if not isinstance(stmt, For):
        return stmt
    inner = (*loops, (stmt.var, stmt.extent))
    for extent in _extents(stmt.body):
        values = _values(extent, inner, stmt.var)
        if values is None:
            continue
        least, greatest = values
        whole = _with(stmt.body, extent, greatest)
        last = _with(stmt.body, extent, least)
        both = If(binary("<=", greatest, extent), whole, last)
        return _visit(replace(stmt, body=both), loops)
    return replace(stmt, body=_visit(stmt.body, inner))


def _extents(stmt: Stmt) -> Iterator[Expr]:
    """Yield the extents of the loops inside a statement that are to be unrolled or vectors."""
    if isinstance(stmt, For) and stmt.kind in ("unroll", "vectorize"):
        yield stmt.extent
    for child in children(stmt):
        yield from _extents(child)


def _values(extent: Expr, loops: _Loops, var: Var) -> tuple[int, int] | None:
    """Return the two values of an extent that the innermost of the loops settles."""
    used = {part for part in walk(extent) if isinstance(part, Var)}
    if var not in used or not used <= {v for v, _ in loops}:
        return None
    found = _taken(extent, [(v, e) for v, e in loops if v in used])
    return (min(found), max(found)) if found is not None and len(found) == 2 else None


def _taken(extent: Expr, loops: list[tuple[Var, Expr]]) -> set[int] | None:
    """Return every value that an extent takes, None where its loops are not counted out."""
    evaluator = Evaluator()
    slots = [evaluator.slot(var) for var, _ in loops]
    limits = [limit for _, limit in loops]
    if any(
        isinstance(part, Var) and part not in {v for v, _ in loops}
        for limit in limits
        for part in walk(limit)
    ):
        return None
    ends = [evaluator.compile(limit) for limit in limits]
    value, env = evaluator.compile(extent), evaluator.env
    found: set[int] = set()
    steps = 0

    def run(depth: int) -> bool:
        nonlocal steps
        if depth == len(slots):
            steps += 1
            found.add(value(env))
            return steps <= _MOST_STEPS and len(found) <= 2
        for at in range(ends[depth](env)):
            env[slots[depth]] = at
            if not run(depth + 1):
                return False
        return True

    return found if run(0) else None


def _with(stmt: Stmt, extent: Expr, value: int) -> Stmt:
    """Put a constant where an extent stands: in loops, and in the strides that follow from it."""

    def visit(expr: Expr) -> Expr | None:
        return Const(value) if expr == extent else None

    def settled(expr: Expr) -> Expr:
        return simplify(map_expr(expr, visit))

    def place(access: Access) -> Access:
        return Access(access.buffer, settled(access.offset))

    def rebuild(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            return For(stmt.var, settled(stmt.extent), rebuild(stmt.body), stmt.kind)
        if isinstance(stmt, Alloc):
            return replace(stmt, body=rebuild(stmt.body))
        if isinstance(stmt, If):
            return If(settled(stmt.condition), rebuild(stmt.then), rebuild(stmt.other))
        if isinstance(stmt, Block):
            return Block(tuple(map(rebuild, stmt.stmts)))
        changed: dict[str, Any] = {}
        for one in fields(stmt):
            held = getattr(stmt, one.name)
            if isinstance(held, Access):
                changed[one.name] = place(held)
            elif one.name in ("loads", "operands"):
                changed[one.name] = tuple(map(place, held))
            elif one.name == "value":
                changed[one.name] = map_expr(held, visit)
        return replace(stmt, **changed)

    return rebuild(stmt)
