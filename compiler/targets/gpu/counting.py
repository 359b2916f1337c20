"""Differences tried at every place where a thread may stand: what no symbolic step decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.ir.linear import const_bounds, simplify, sum_of, variables
from vdla.compiler.te.expr import Binary, Const, Expr, Pick, Var

__all__ = ["evaluated", "never_negative_counted"]

_MOST = 1 << 22
"""Places that are tried: some hundred megabytes and a tenth of a second."""

_Array = NDArray[np.int64]
_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    "min": np.minimum,
    "max": np.maximum,
}


def never_negative_counted(
    wanted: Expr, loops: Sequence[tuple[Var, Expr]], facts: Sequence[Expr]
) -> bool:
    """Tell whether a difference is at least 0 wherever all facts are; False if that is unknown.

    Variables that stand in no fact, and in the difference with a factor alone, need not be tried:
    one end of their range is the worst.

    Parameters
    ----------
    wanted : Expr
    loops : sequence of (Var, Expr)
        Ranges of the variables, outermost first.
    facts : sequence of Expr
        What is at least 0.
    """
    bound = frozenset[Var]().union(*map(variables, facts))
    sums, constant = sum_of(simplify(wanted))
    tied = bound.union(*(variables(atom) for atom in sums if not isinstance(atom, Var)))
    kept: Expr = Const(constant)
    for atom, factor in sums.items():
        if isinstance(atom, Var) and atom not in tied:
            kept = kept + min(factor * end for end in const_bounds(atom, loops))
        else:
            kept = kept + atom * factor
    used = sorted(variables(kept) | bound, key=lambda var: var.name)
    lengths = [const_bounds(var, loops)[1] + 1 for var in used]
    if prod(lengths) > _MOST:
        return False
    values = dict(zip(used, np.ix_(*map(np.arange, lengths)), strict=True)) if used else {}
    holds: Any = np.bool_(True)
    for fact in facts:
        holds = holds & (evaluated(fact, values) >= 0)
    return not bool((holds & (evaluated(kept, values) < 0)).any())


def evaluated(expr: Expr, values: Mapping[Var, _Array]) -> Any:
    """Return an index for arrays of its variables' values, which numpy broadcasts."""
    if isinstance(expr, Const):
        return np.int64(expr.value)
    if isinstance(expr, Var):
        return values[expr]
    if isinstance(expr, Pick):
        return np.take(np.asarray(expr.values), evaluated(expr.index, values), mode="clip")
    assert isinstance(expr, Binary)
    a, b = (evaluated(part, values) for part in (expr.a, expr.b))
    return _OPERATIONS[expr.op](a, b)
