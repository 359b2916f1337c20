"""Arithmetic on index expressions: canonical sums, ranges, affine coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import gcd

from vdla.compiler.te.expr import Binary, Call, Const, Expr, Pick, Read, Var, as_expr, binary, pick
from vdla.compiler.te.ranges import value_range
from vdla.compiler.te.traverse import map_expr, walk
from vdla.errors import LoweringError

from .printer import expr_text

__all__ = [
    "affine",
    "const_bounds",
    "is_data",
    "lookup",
    "relax",
    "simplify",
    "sum_of",
    "uses",
    "variables",
]

_Terms = dict[Expr, int]


def uses(expr: Expr, wanted: Iterable[Var]) -> bool:
    """Tell whether an expression contains one of the variables."""
    return not variables(expr).isdisjoint(wanted)


@lru_cache(maxsize=1 << 15)
def is_data(expr: Expr) -> bool:
    """Tell whether an index depends on the elements of a tensor."""
    return any(isinstance(part, (Call, Read)) for part in walk(expr))


@lru_cache(maxsize=1 << 15)
def variables(expr: Expr) -> frozenset[Var]:
    """Return the variables that an expression contains."""
    if isinstance(expr, Var):
        return frozenset((expr,))
    if isinstance(expr, Binary):
        return variables(expr.a) | variables(expr.b)
    return frozenset(part for part in walk(expr) if isinstance(part, Var))


def sum_of(expr: Expr) -> tuple[_Terms, int]:
    """Split an expression into integer multiples of atoms and a constant.

    ``4 * i - j // 2 + 3`` is ``{i: 4, j // 2: -1}, 3``.
    """
    if isinstance(expr, Const):
        return {}, expr.value
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        left, a = sum_of(expr.a)
        right, b = sum_of(expr.b)
        sign = 1 if expr.op == "+" else -1
        for atom, factor in right.items():
            left[atom] = left.get(atom, 0) + sign * factor
        return {atom: f for atom, f in left.items() if f}, a + sign * b
    if isinstance(expr, Binary) and expr.op == "*":
        for scale, rest in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(scale, Const):
                terms, constant = sum_of(rest)
                scaled = {atom: f * scale.value for atom, f in terms.items() if f * scale.value}
                return scaled, constant * scale.value
    return {expr: 1}, 0


def _rejoined(terms: _Terms, constant: int) -> tuple[_Terms, int]:
    """Put quotients and remainders together again: ``x // 4 * 4 + x % 4`` is x."""
    for atom, factor in terms.items():
        if isinstance(atom, Binary) and atom.op == "%" and isinstance(atom.b, Const):
            quotient = Binary("//", atom.a, atom.b)
            if terms.get(quotient) == factor * atom.b.value:
                left = {a: f for a, f in terms.items() if a not in (atom, quotient)}
                inner, more = sum_of(atom.a)
                for part, count in inner.items():
                    left[part] = left.get(part, 0) + factor * count
                left = {a: f for a, f in left.items() if f}
                return _rejoined(left, constant + factor * more)
    return terms, constant


def _from_sum(terms: _Terms, constant: int) -> Expr:
    result: Expr | None = None
    for atom, factor in terms.items():
        part = atom if factor == 1 else Binary("*", atom, as_expr(factor, atom.dtype))
        result = part if result is None else Binary("+", result, part)
    if result is None:
        return as_expr(constant)
    return Binary("+", result, as_expr(constant, result.dtype)) if constant else result


@lru_cache(maxsize=1 << 15)
def simplify(expr: Expr) -> Expr:
    """Return an equal expression in canonical form, so that equal sums compare equal."""

    def visit(part: Expr) -> Expr | None:
        if isinstance(part, Pick):
            return pick(part.values, simplify(part.index))
        if not isinstance(part, Binary):
            return None
        a, b = simplify(part.a), simplify(part.b)
        if part.a.dtype != "int32":  # no index: a value that an operator computes
            return _rebuild(part.op, a, b)
        if part.op in ("+", "-", "*"):
            return _from_sum(*_rejoined(*sum_of(Binary(part.op, a, b))))
        if part.op in ("min", "max"):
            terms, constant = sum_of(a - b)
            if not terms:
                return a if (constant <= 0) == (part.op == "min") else b
        if part.op in ("//", "%") and isinstance(b, Const):
            return _divided(part.op, a, b.value)
        return _rebuild(part.op, a, b)

    return map_expr(expr, visit)


def _divided(op: str, a: Expr, by: int) -> Expr:
    """Take the multiples of a divisor out of a quotient or a remainder, which round down."""
    terms, constant = sum_of(a)
    whole = {atom: f // by for atom, f in terms.items() if f % by == 0}
    left = {atom: f for atom, f in terms.items() if f % by}
    if op == "//" and (common := gcd(by, *left.values())) > 1:
        # (4 x + 3) // 8 = x // 2: what is less than a step of the sum does not count.
        left = {atom: f // common for atom, f in left.items()}
        rest, over = _from_sum(left, constant % by // common), by // common
    else:
        rest, over = _from_sum(left, constant % by), by
    if op == "%":
        return _rebuild("%", rest, Const(by)) if not isinstance(rest, Const) else rest
    quotient = _from_sum(whole, constant // by)
    if isinstance(rest, Const):
        return quotient
    return _from_sum(*sum_of(quotient + _rebuild("//", rest, Const(over))))


def _rebuild(op: str, a: Expr, b: Expr) -> Expr:
    return binary(op, a, b) if isinstance(a, Const) and isinstance(b, Const) else Binary(op, a, b)


def relax(expr: Expr, var: Var, extent: Expr) -> tuple[Expr, Expr]:
    """Return the least and greatest value while a variable runs over ``0 .. extent - 1``.

    Other variables stay as they are. The range is exact for sums with a ``min`` of the
    variable's own tile, and conservative elsewhere.
    """
    return _least(expr, var, extent), _greatest(expr, var, extent)


def _greatest(expr: Expr, var: Var, extent: Expr) -> Expr:
    return _extreme(expr, var, extent, upper=True)


def _least(expr: Expr, var: Var, extent: Expr) -> Expr:
    return _extreme(expr, var, extent, upper=False)


@lru_cache(maxsize=1 << 15)
def _extreme(expr: Expr, var: Var, extent: Expr, *, upper: bool) -> Expr:
    if not uses(expr, (var,)):
        return expr
    terms, constant = sum_of(simplify(expr))
    bounded = [
        a for a in terms if isinstance(a, Binary) and a.op in ("min", "max") and uses(a, (var,))
    ]
    if bounded and len(terms) > 1:
        # rest + f * min(x, y) = min(rest + f * x, rest + f * y): keeps the last tile's bound tight.
        split, factor = bounded[0], terms[bounded[0]]
        rest = _from_sum({a: f for a, f in terms.items() if a is not split}, constant)
        sides = [
            _extreme(simplify(rest + side * factor), var, extent, upper=upper)
            for side in (split.a, split.b)
        ]
        flipped = {"min": "max", "max": "min"}[split.op]
        return simplify(_rebuild(split.op if factor > 0 else flipped, *sides))
    total: Expr = Const(constant)
    for atom, factor in terms.items():
        total = total + _atom_extreme(atom, var, extent, upper=upper == (factor > 0)) * factor
    return simplify(total)


def _atom_extreme(atom: Expr, var: Var, extent: Expr, *, upper: bool) -> Expr:
    if atom is var:
        return extent - 1 if upper else Const(0)
    if not uses(atom, (var,)):
        return atom
    if isinstance(atom, Pick):
        return Const(max(atom.values) if upper else min(atom.values))
    if isinstance(atom, Binary):
        if atom.op in ("min", "max", "*"):  # factors of a product of extents are not negative
            a = _extreme(atom.a, var, extent, upper=upper)
            b = _extreme(atom.b, var, extent, upper=upper)
            return simplify(_rebuild(atom.op, a, b))
        if atom.op == "//":  # of an index by an extent: neither is negative
            by = _extreme(atom.b, var, extent, upper=not upper)
            if uses(atom.b, (var,)):
                by = simplify(_rebuild("max", by, Const(1)))
            return simplify(_extreme(atom.a, var, extent, upper=upper) // by)
        if atom.op == "%":
            return _extreme(atom.b, var, extent, upper=True) - 1 if upper else Const(0)
    if is_data(atom):
        return Const(value_range(atom)[upper])
    raise LoweringError(
        f"An index must be built from +, -, *, //, %, min, max and pick for its range to be known, "
        f"not {expr_text(atom)}."
    )


def const_bounds(expr: Expr, loops: Iterable[tuple[Var, Expr]]) -> tuple[int, int]:
    """Return integer bounds of an expression under enclosing loops, outermost first."""
    low = high = simplify(expr)
    loops = tuple(loops)
    if (box := _in_box(low, dict(loops))) is not None:
        return box
    for var, extent in reversed(loops):
        low, high = _least(low, var, extent), _greatest(high, var, extent)
    if is_data(low) or is_data(high):
        return value_range(low)[0], value_range(high)[1]
    if not (isinstance(low, Const) and isinstance(high, Const)):
        raise LoweringError(
            f"The range of {expr_text(expr)} must be known when compiling; its bounds "
            f"{expr_text(low)} and {expr_text(high)} use variables of no enclosing loop."
        )
    return low.value, high.value


def _in_box(expr: Expr, extents: Mapping[Var, Expr]) -> tuple[int, int] | None:
    """Return the bounds of a sum of variables whose extents are constants; None of others."""
    terms, low = sum_of(expr)
    high = low
    for atom, factor in terms.items():
        extent = extents.get(atom) if isinstance(atom, Var) else None
        if not isinstance(extent, Const):
            return None
        if factor > 0:
            high += factor * (extent.value - 1)
        else:
            low += factor * (extent.value - 1)
    return low, high


def affine(expr: Expr, variables: Iterable[Var]) -> tuple[dict[Var, Expr], Expr] | None:
    """Write an expression as ``base + sum(coefficient * variable)``.

    Coefficients and base may use other variables. Returns None where the expression is not
    affine in the given ones.
    """
    wanted = set(variables)

    def visit(part: Expr) -> tuple[dict[Var, Expr], Expr] | None:
        if isinstance(part, Var) and part in wanted:
            return {part: Const(1)}, Const(0)
        if not uses(part, wanted):
            return {}, part
        if isinstance(part, Binary) and part.op in ("+", "-", "*"):
            left, right = visit(part.a), visit(part.b)
            if left is None or right is None:
                return None
            if part.op == "*":
                if left[0] and right[0]:
                    return None
                (inner, base), scale = (left, right[1]) if left[0] else (right, left[1])
                return {v: simplify(c * scale) for v, c in inner.items()}, base * scale
            merged = dict(left[0])
            for v, c in right[0].items():
                have = merged.get(v, Const(0))
                merged[v] = simplify(have + c if part.op == "+" else have - c)
            return merged, left[1] + right[1] if part.op == "+" else left[1] - right[1]
        return None

    found = visit(expr)
    if found is None:
        return None
    return {v: c for v, c in found[0].items() if c != as_expr(0)}, simplify(found[1])


def lookup(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Substitute variables and simplify."""
    return simplify(map_expr(expr, lambda e: values.get(e) if isinstance(e, Var) else None))
