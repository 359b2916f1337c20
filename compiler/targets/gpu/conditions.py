"""Conditions on where a thread stands, as differences that must be positive or zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import gcd

from vdla.compiler.ir.linear import const_bounds, is_data, simplify, sum_of
from vdla.compiler.te.expr import Binary, Const, Expr, Select, Var, all_of, as_expr, binary
from vdla.compiler.te.traverse import map_expr
from vdla.errors import LoweringError

__all__ = [
    "below",
    "bounds",
    "conjuncts",
    "contained",
    "differences",
    "facts_against",
    "facts_of",
    "needed",
    "never_negative",
    "settle",
]

_Loops = Sequence[tuple[Var, Expr]]


def below(index: Expr, extent: Expr) -> tuple[Expr, ...]:
    """Return the conditions ``a < b`` that together mean ``index < extent``.

    ``t < (min(32, 65 - 32 * b) + 3) // 4`` means ``4 * t < 32`` and ``32 * b + 4 * t < 65``: no
    quotients and no minima are left, so that each is cheap to test, and to decide beforehand.
    """
    return tuple(_comparison(part) for part in _split(simplify(extent - index - 1)))


def _split(difference: Expr) -> list[Expr]:
    """Return sums that are all at least 0 where a difference is: minima and quotients taken apart.

    ``x // c + r >= 0`` means ``x + c * r >= 0``, and ``r - x // c >= 0`` means
    ``c * r + c - 1 - x >= 0``.
    """
    for atom, factor in sum_of(difference)[0].items():
        if not isinstance(atom, Binary) or abs(factor) != 1:
            continue
        rest = simplify(difference - atom * factor)
        if atom.op == "min" and factor == 1:
            sides = (_split(simplify(rest + side)) for side in (atom.a, atom.b))
            return list(chain.from_iterable(sides))
        if atom.op == "//" and isinstance(atom.b, Const) and atom.b.value > 0:
            by = atom.b.value
            left = atom.a if factor == 1 else by - 1 - atom.a
            return _split(simplify(left + rest * by))
    return [difference]


def _comparison(difference: Expr) -> Expr:
    """Return ``difference >= 0`` as ``a < b``, all that is subtracted on the left."""
    sums, constant = sum_of(difference)
    left: Expr = Const(0)
    right: Expr = as_expr(constant + 1)
    for atom, factor in sums.items():
        if factor < 0:
            left = left + atom * -factor
        else:
            right = right + atom * factor
    return binary("<", simplify(left), simplify(right))


def differences(condition: Expr) -> tuple[Expr, ...]:
    """Return what is at least 0 where a condition holds; nothing where it is no comparison."""
    if isinstance(condition, Binary) and condition.op == "and":
        return (*differences(condition.a), *differences(condition.b))
    if not isinstance(condition, Binary) or not _of_indices(condition):
        return ()
    a, b = condition.a, condition.b
    if condition.op == "==":
        return simplify(a - b), simplify(b - a)
    strict = {"<": 1, "<=": 0}.get(condition.op)
    return () if strict is None else (simplify(b - a - strict),)


def facts_of(condition: Expr) -> tuple[Expr, ...]:
    """Return what is at least 0 where a condition holds, with quotients and without."""
    raw = differences(condition)
    return tuple(dict.fromkeys((*raw, *chain.from_iterable(map(_split, raw)))))


def facts_against(condition: Expr) -> tuple[Expr, ...]:
    """Return what is at least 0 where a condition does not hold: of ``a < b``, a - b."""
    if not isinstance(condition, Binary) or not _of_indices(condition):
        return ()
    opposite = {"<": "<=", "<=": "<"}.get(condition.op)
    return () if opposite is None else facts_of(binary(opposite, condition.b, condition.a))


def _of_indices(condition: Binary) -> bool:
    """Tell whether a condition is of where a thread stands, not of what a tensor holds."""
    return condition.a.dtype.startswith("int") and not is_data(condition)


def never_negative(difference: Expr, loops: _Loops) -> bool:
    """Tell whether a difference is at least 0 wherever a thread stands."""
    try:
        return const_bounds(difference, loops)[0] >= 0
    except LoweringError:
        return False


def contained(part: Expr, whole: Expr) -> int:
    """Return how often the atoms of one sum are in another; 0 where one has the other sign."""
    sums, given = _terms(whole), _terms(part)
    if not given or any(sums.get(atom, 0) * factor <= 0 for atom, factor in given.items()):
        return 0
    return min(abs(sums[atom]) // abs(factor) for atom, factor in given.items())


@lru_cache(maxsize=1 << 14)
def _terms(expr: Expr) -> Mapping[Expr, int]:
    return sum_of(expr)[0]


def bounds(expr: Expr, loops: _Loops, facts: Sequence[Expr]) -> tuple[int, int]:
    """Return bounds of an index by ranges, and the upper one by facts as well.

    ``12 * i + t`` with i below 10 and t below 12 is at most 119, and where ``116 - 12 * i - t`` is
    at least 0 it is at most 116.

    Raises
    ------
    LoweringError
        The range is not known.
    """
    low, high = const_bounds(expr, loops)
    for fact in facts:
        times = contained(expr, simplify(0 - fact))
        if times:
            rest = simplify(fact + expr * times)
            high = min(high, const_bounds(rest, loops)[1] // times)
    for atom, factor in sum_of(expr)[0].items():
        if isinstance(atom, Binary) and atom.op == "//" and factor > 0:
            by = atom.b.value if isinstance(atom.b, Const) else 0
            if by > 0:  # x // c + r is at most (x + c * r) / c
                whole = simplify((expr - atom * factor) * by + atom.a * factor)
                high = min(high, bounds(whole, loops, facts)[1] // by)
                break
    return low, high


def needed(
    conditions: Sequence[Expr], loops: _Loops, tested: Sequence[Expr] = ()
) -> tuple[Expr, ...]:
    """Return those conditions that do not hold everywhere, nor wherever another one holds.

    Parameters
    ----------
    conditions : sequence of Expr
    loops : sequence of (Var, Expr)
        Ranges of the variables.
    tested : sequence of Expr
        Other conditions, which hold.
    """
    given = [d for c in tested for d in differences(c)]
    kept = [c for c in dict.fromkeys(conditions) if not _follows(c, given, loops)]
    for one in tuple(kept):
        others = [d for c in kept if c is not one for d in differences(c)]
        if _follows(one, others, loops):
            kept.remove(one)
    return tuple(kept)


def _follows(condition: Expr, facts: Sequence[Expr], loops: _Loops) -> bool:
    """Tell whether a condition holds everywhere, or wherever one of some facts does."""
    if isinstance(condition, Const):
        return bool(condition.value)
    own = differences(condition)
    known = (Const(0), *map(_tightened, facts))
    return bool(own) and all(
        any(never_negative(simplify(mine - fact), loops) for fact in known) for mine in own
    )


def _tightened(difference: Expr) -> Expr:
    """Return what is at least 0 where a difference is: of ``131 - 4 * t``, ``128 - 4 * t``."""
    sums, constant = sum_of(difference)
    common = gcd(*sums.values())
    return simplify(difference - constant % common) if common > 1 else difference


def conjuncts(condition: Expr) -> list[Expr]:
    """Return the conditions that together are one."""
    if isinstance(condition, Binary) and condition.op == "and":
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [condition]


def settle(expr: Expr, loops: _Loops, facts: Sequence[Expr]) -> Expr:
    """Return an expression without the quotients, remainders and conditions that facts decide.

    Before: ``(12 * i + t) // 13 % 9``. After, where ``12 * i + t`` is at most 116:
    ``(12 * i + t) // 13``. Before: ``(4 * t + l) // 8``. After, where l is below 4: ``t // 2``.
    """

    def visit(part: Expr) -> Expr | None:
        if isinstance(part, Binary) and part.op == "and":
            every = [map_expr(one, visit) for one in conjuncts(part)]
            if any(isinstance(one, Const) and not one.value for one in every):
                return Const(0, part.dtype)
            left = needed([one for one in every if not isinstance(one, Const)], loops)
            return all_of(*left) if left else Const(1, part.dtype)
        if isinstance(part, Select):
            condition, then, other = (
                map_expr(one, visit) for one in (part.condition, part.then, part.other)
            )
            if isinstance(condition, Const):
                return then if condition.value else other
            return Select(condition, then, other)
        if not isinstance(part, Binary) or part.op not in ("//", "%"):
            return None
        a, by = simplify(settle(part.a, loops, facts)), part.b
        if not isinstance(by, Const) or by.value <= 0 or is_data(a):
            return None
        low, high = bounds(a, loops, facts)
        if low // by.value != high // by.value:
            return _coarser(part.op, a, by.value, loops, facts)
        quotient = low // by.value
        return Const(quotient, part.dtype) if part.op == "//" else a - quotient * by.value

    return map_expr(expr, visit)


def _coarser(op: str, a: Expr, by: int, loops: _Loops, facts: Sequence[Expr]) -> Expr:
    """Return a quotient or remainder of fewer terms: those less than a step of the others go.

    ``(4 * t + l) % 8`` is ``4 * (t % 2) + l`` where l is below 4.
    """
    sums, constant = sum_of(a)
    for step in sorted({gcd(by, factor) for factor in sums.values()} - {1}, reverse=True):
        coarse: Expr = Const(constant // step)
        rest: Expr = Const(constant % step)
        for atom, factor in sums.items():
            if factor % step:
                rest = rest + atom * factor
            else:
                coarse = coarse + atom * (factor // step)
        rest = simplify(rest)
        low, high = bounds(rest, loops, facts)
        if isinstance(rest, Const) or low < 0 or high >= step:
            continue
        inner = settle(binary(op, simplify(coarse), Const(by // step)), loops, facts)
        return inner if op == "//" else inner * step + rest
    return binary(op, a, Const(by))
