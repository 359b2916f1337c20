"""What stands inside a stage's loops: a copy, or stores of single elements."""

from __future__ import annotations

from vdla.compiler.ir.linear import is_data, lookup, simplify
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.ir.stmt import Access, Condition, Copy
from vdla.compiler.te.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    all_of,
    as_expr,
)
from vdla.compiler.te.stage import Stage
from vdla.compiler.te.tensor import IterVar
from vdla.compiler.te.traverse import map_expr
from vdla.errors import LoweringError

from .regions import Region
from .storage import Storage

__all__ = ["DMA_PRAGMA", "copy_of", "element_of", "load_all", "within"]

DMA_PRAGMA = "dma_copy"
"""Pragma that turns a copy stage's loops, from the marked one inwards, into one copy."""


def element_of(stage: Stage, storage: Storage) -> Access:
    """Return the element of its tensor that a stage's loops stand at."""
    values = storage.regions[stage].values
    return storage.access(stage.tensor, tuple(lookup(axis.var, values) for axis in stage.axis))


def copy_of(stage: Stage, storage: Storage, inner: list[IterVar]) -> Copy:
    """Return the loops from a marked one inwards as one copy.

    Before: ``for y: for x: b[y, x] = select(1 <= x < 8, a[y, x - 1], 0)``, marked at y. After:
    ``copy b = a for y, x where 1 <= x < 8 else 0``.

    Raises
    ------
    LoweringError
        The stage does something else than copy a tensor.
    """
    region = storage.regions[stage]
    body, casts = _without_cast(stage.body)
    conditions: tuple[Condition, ...] = ()
    pad = 0
    if isinstance(body, Select):
        if not isinstance(body.other, Const):
            raise LoweringError(
                f"The padding of copy {stage.name} must be a constant, not {expr_text(body.other)}."
            )
        pad, conditions = body.other.value, _conditions(body.condition, region, stage.name)
        body, inside = _without_cast(body.then)
        casts += inside
    if not isinstance(body, Read) or casts > 1:
        raise LoweringError(
            f"A stage marked {DMA_PRAGMA} must copy a tensor, converted once and padded by a "
            f"select at most; {stage.name} computes {expr_text(stage.body)}: compute the rest in "
            "a stage of its own."
        )
    indices = tuple(lookup(index, region.values) for index in body.indices)
    source = storage.access(body.tensor, indices)
    loops = tuple((leaf.var, region.loop_extents[leaf]) for leaf in inner)
    return Copy(element_of(stage, storage), source, loops, conditions, pad)


def _without_cast(body: Expr) -> tuple[Expr, int]:
    casts = 0
    while isinstance(body, Cast):
        body, casts = body.value, casts + 1
    return body, casts


def _conditions(expr: Expr, region: Region, name: str) -> tuple[Condition, ...]:
    if isinstance(expr, Binary) and expr.op == "and":
        return _conditions(expr.a, region, name) + _conditions(expr.b, region, name)
    if isinstance(expr, Binary) and expr.op in ("<", "<="):
        a, b = lookup(expr.a, region.values), lookup(expr.b, region.values)
        strict = expr.op == "<"
        if isinstance(b, Const):
            return (Condition(a, None, b.value + (0 if strict else 1)),)
        if isinstance(a, Const):
            return (Condition(b, a.value + (1 if strict else 0), None),)
    raise LoweringError(
        f"The padding condition of {name} must be comparisons with constants joined by and, not "
        f"{expr_text(expr)}."
    )


def within(body: Expr, conditions: tuple[Expr, ...]) -> Expr:
    """Return an element where conditions hold, and 0 elsewhere.

    What is padded with 0 already gets one condition more, and not a second select around it.
    """
    if not conditions:
        return body
    zero = as_expr(0, body.dtype)
    if isinstance(body, Select) and body.other == zero:
        return Select(all_of(*conditions, body.condition), body.then, zero)
    return Select(all_of(*conditions), body, zero)


def load_all(body: Expr, stage: Stage, storage: Storage) -> tuple[Expr, tuple[Access, ...]]:
    """Put calls of ``load``, numbered, where an expression reads tensors, and return the reads.

    An index that reads a tensor itself becomes a call of an earlier load.
    """
    values = storage.regions[stage].values
    loads: list[Access] = []
    places: dict[Read, Access] = {}  # a body may read an element many times

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Read):
            place = places.get(expr)
            if place is None:
                indices = tuple(simplify(map_expr(index, visit)) for index in expr.indices)
                place = storage.access(expr.tensor, indices)
                if not is_data(place.offset):
                    places[expr] = place
            loads.append(place)
            return Call("load", (), expr.dtype, (("position", len(loads) - 1),))
        return values.get(expr) if isinstance(expr, Var) else None

    return map_expr(body, visit), tuple(loads)
