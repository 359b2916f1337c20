"""Loops of a constant number of iterations, where a split left a shorter last tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vdla.compiler.ir.evaluate import exact_values
from vdla.compiler.ir.linear import simplify
from vdla.compiler.ir.stmt import Alloc, Block, For, If, Stmt, children, map_indices
from vdla.compiler.te.expr import Const, Expr, Var, binary
from vdla.compiler.te.traverse import map_expr, walk

__all__ = ["version_tails"]

_Loops = tuple[tuple[Var, Expr], ...]


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
    found = exact_values(extent, loops, most=2)
    return (min(found), max(found)) if found is not None and len(found) == 2 else None


def _with(stmt: Stmt, extent: Expr, value: int) -> Stmt:
    """Put a constant where an extent stands: in loops, and in the strides that follow from it."""

    def visit(expr: Expr) -> Expr | None:
        return Const(value) if expr == extent else None

    def settled(expr: Expr) -> Expr:
        return simplify(map_expr(expr, visit))

    def rebuild(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            return For(stmt.var, settled(stmt.extent), rebuild(stmt.body), stmt.kind)
        if isinstance(stmt, Alloc):
            return replace(stmt, body=rebuild(stmt.body))
        if isinstance(stmt, If):
            return If(settled(stmt.condition), rebuild(stmt.then), rebuild(stmt.other))
        if isinstance(stmt, Block):
            return Block(tuple(map(rebuild, stmt.stmts)))
        return map_indices(stmt, settled, lambda e: map_expr(e, visit))

    return rebuild(stmt)
