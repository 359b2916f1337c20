"""Which parts of a value are used more than once, so that they are computed before it, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vdla.compiler.ir.linear import is_data
from vdla.compiler.ir.stmt import Access
from vdla.compiler.te.expr import Call, Cast, Const, Expr, Real, Select, Var
from vdla.compiler.te.traverse import map_expr, parts_of, walk

__all__ = ["load_call", "load_of", "loaded_always", "merged_loads", "used_again"]


def load_call(dtype: str, position: int) -> Expr:
    """Return one of a store's loads as an expression."""
    return Call("load", (), dtype, (("position", position),))


def load_of(expr: Expr) -> int | None:
    """Return which of a store's loads an expression is, None where it is none."""
    if isinstance(expr, Call) and expr.name == "load":
        return dict(expr.attrs)["position"]
    return None


def merged_loads(value: Expr, loads: Sequence[Access]) -> Expr:
    """Make one of loads of the same element.

    Before: ``select(load0 < 0, load1 * 3, load2)``, all of ``a[i]``. After:
    ``select(load0 < 0, load0 * 3, load0)``.
    """
    first: dict[tuple[int, Expr], int] = {}

    def visit(expr: Expr) -> Expr | None:
        position = load_of(expr)
        if position is None:
            return None
        access = loads[position]
        key = id(access.buffer), map_expr(access.offset, visit)
        kept = first.setdefault(key, position)
        return load_call(expr.dtype, kept)

    return map_expr(value, visit)


def used_again(value: Expr) -> list[Expr]:
    """Return the parts that are used more than once, each after those inside it.

    What only one side of a select loads is not computed where the other is chosen: parts that hold
    such a load are left where they are.
    """
    always = loaded_always(value)
    uses: Counter[Expr] = Counter()
    order: list[Expr] = []

    def visit(expr: Expr) -> None:
        uses[expr] += 1
        if uses[expr] > 1:
            return
        for part in parts_of(expr):
            visit(part)
        order.append(expr)

    visit(value)
    return [
        part for part in order if uses[part] > 1 and _worth_a_name(part) and _loaded(part) <= always
    ]


def _worth_a_name(part: Expr) -> bool:
    if isinstance(part, Cast):
        return _worth_a_name(part.value)
    return is_data(part) and load_of(part) is None and not isinstance(part, (Const, Real, Var))


def _loaded(expr: Expr) -> set[int]:
    return {position for part in walk(expr) if (position := load_of(part)) is not None}


def loaded_always(expr: Expr) -> set[int]:
    """Return the positions of what a value loads whichever of its conditions hold."""
    if isinstance(expr, Select):
        return loaded_always(expr.condition)
    position = load_of(expr)
    if position is not None:
        return {position}
    return set[int]().union(*map(loaded_always, parts_of(expr)))
