"""Walking through expressions, and rebuilding them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .expr import Binary, Call, Cast, Expr, Pick, Read, Reduce, Select, Var, binary, pick

__all__ = ["map_expr", "parts_of", "substitute", "walk"]


def map_expr(expr: Expr, visit: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild an expression bottom-up.

    ``visit`` sees each node before its children; a result other than None replaces the node and
    is not visited further.
    """
    replaced = visit(expr)
    if replaced is not None:
        return replaced
    if isinstance(expr, Binary):
        a, b = map_expr(expr.a, visit), map_expr(expr.b, visit)
        # What stays the same stays the same object: it knows its hash, and looking it up is short.
        return expr if a is expr.a and b is expr.b else binary(expr.op, a, b)
    if isinstance(expr, Cast):
        value = map_expr(expr.value, visit)
        return expr if value is expr.value else Cast(expr.dtype, value)
    if isinstance(expr, Select):
        parts = [map_expr(part, visit) for part in (expr.condition, expr.then, expr.other)]
        return Select(*parts)
    if isinstance(expr, Read):
        return Read(expr.tensor, tuple(map_expr(index, visit) for index in expr.indices))
    if isinstance(expr, Call):
        return Call(
            expr.name, tuple(map_expr(arg, visit) for arg in expr.args), expr.dtype, expr.attrs
        )
    if isinstance(expr, Pick):
        return pick(expr.values, map_expr(expr.index, visit))
    if isinstance(expr, Reduce):
        start = None if expr.start is None else map_expr(expr.start, visit)
        return Reduce(expr.kind, map_expr(expr.source, visit), expr.axes, start)
    return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all its parts, parents first."""
    left = [expr]
    while left:
        part = left.pop()
        yield part
        left.extend(reversed(parts_of(part)))


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside one."""
    if isinstance(expr, Binary):
        return (expr.a, expr.b)
    if isinstance(expr, Cast):
        return (expr.value,)
    if isinstance(expr, Select):
        return (expr.condition, expr.then, expr.other)
    if isinstance(expr, Read):
        return expr.indices
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Pick):
        return (expr.index,)
    if isinstance(expr, Reduce):
        return (expr.source,) if expr.start is None else (expr.source, expr.start)
    return ()


def substitute(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Return an expression with variables replaced."""
    return map_expr(expr, lambda e: values.get(e) if isinstance(e, Var) else None)
