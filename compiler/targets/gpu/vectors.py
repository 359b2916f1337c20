"""Vectors: elements that follow each other, read and written at a time."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from vdla.compiler.ir.linear import simplify, sum_of, uses
from vdla.compiler.ir.stmt import Access, Store
from vdla.compiler.lower.regions import SHARED
from vdla.compiler.te.expr import Binary, Const, Expr, Real, Reduce, Select, Var, all_of
from vdla.compiler.te.traverse import map_expr, substitute, walk

from .conditions import conjuncts, differences
from .dialect import HALF
from .kernel import Guard, Loop, Statement
from .shared_values import load_of

__all__ = ["VECTOR_TYPES", "in_vectors", "is_vector", "vector_type"]

VECTOR_TYPES: Mapping[tuple[str, int], str] = {
    ("float32", 2): "float2",
    ("float32", 4): "float4",
    ("int8", 4): "char4",
    ("uint8", 4): "uchar4",
    ("int8", 8): "int2",
    ("uint8", 8): "int2",
    ("int8", 16): "int4",
    ("uint8", 16): "int4",
    (HALF, 4): "float2",
    (HALF, 8): "float4",
}
"""What the languages call a vector, by dtype and lanes. Those whose elements have another type,
halves as two to a float and bytes as four to an int, are only copied."""
_BYTES = (("int8", 4), ("uint8", 4))
_COMPUTED = (("float32", 2), ("float32", 4), *_BYTES)


def in_vectors(loop: Loop) -> Statement:
    """Return a loop as vectors, where what it stores is known to be whole ones; or as it is.

    Before::

        for l in 4: t[4 * i + l] = select(8 * b + 4 * i + l < 20, a[8 * b + 4 * i + l], 0)

    After, the condition being the same in all lanes::

        t[4 * i ...] = select(8 * b + 4 * i < 20, a[8 * b + 4 * i ...], 0)

    A vector begins at a multiple of its length, as devices read no others at once.
    """
    guards = loop.body.conditions if isinstance(loop.body, Guard) else ()
    store = loop.body.body if isinstance(loop.body, Guard) else loop.body
    if not isinstance(store, Store) or isinstance(store.value, Reduce):
        return loop
    assert isinstance(loop.extent, Const)
    var, lanes = loop.var, loop.extent.value
    value = _uniform(store.value, var, lanes)
    guards = tuple(_same_in_all(condition, var, lanes) for condition in guards)
    chosen = [part.condition for part in walk(value) if isinstance(part, Select)]
    if any(uses(condition, (var,)) for condition in (*guards, *chosen)):
        return loop
    if not is_vector(store.target, var, lanes):
        return loop
    made = Store(store.target, value, store.loads)
    type_of_elements = (store.target.buffer.dtype, lanes) in _COMPUTED
    if not type_of_elements and not _copies(made, value, var, lanes):
        return loop
    vectors = Loop(var, loop.extent, made, vector=True)
    return Guard(guards, vectors) if guards else vectors


def is_vector(access: Access, var: Var, lanes: int) -> bool:
    """Tell whether a variable's steps are the elements of one vector, whole and in order.

    What lies in registers is none: a thread's elements are apart there.
    """
    sums, constant = sum_of(access.offset)
    rest = [factor for atom, factor in sums.items() if atom is not var]
    return (
        (access.buffer.dtype, lanes) in VECTOR_TYPES
        and access.buffer.scope in ("global", SHARED)
        and sums.get(var) == 1
        and not any(uses(atom, (var,)) for atom in sums if atom is not var)
        and gcd(lanes, constant, *rest) == lanes
    )


def vector_type(store: Store, var: Var, lanes: int) -> str:
    """Return what the languages call the vector that a store writes.

    Four bytes that are only copied are an int, which compilers do not take apart.
    """
    key = (store.target.buffer.dtype, lanes)
    whole = key in _BYTES and _copies(store, store.value, var, lanes)
    return "int" if whole else VECTOR_TYPES[key]


def _copies(store: Store, value: Expr, var: Var, lanes: int) -> bool:
    """Tell whether a value is a vector in memory or the same in all lanes, or one of two."""
    dtype = store.target.buffer.dtype
    if isinstance(value, Select):
        return all(_copies(store, one, var, lanes) for one in (value.then, value.other))
    position = load_of(value)
    if position is not None:
        load = store.loads[position]
        return load.buffer.dtype == dtype and is_vector(load, var, lanes)
    if isinstance(value, Const):
        return value.dtype == dtype
    return isinstance(value, Real) and str(value.value) == "0.0"


def _uniform(value: Expr, var: Var, lanes: int) -> Expr:
    """Return a value with its conditions free of a lane's number where they do not depend on it."""

    def visit(part: Expr) -> Expr | None:
        if not isinstance(part, Select):
            return None
        every = (_same_in_all(one, var, lanes) for one in conjuncts(part.condition))
        return Select(all_of(*every), map_expr(part.then, visit), map_expr(part.other, visit))

    return map_expr(value, visit)


def _same_in_all(condition: Expr, var: Var, lanes: int) -> Expr:
    """Return a comparison as it is in the first lane, where it is the same in the others.

    ``8 * b + l < 20`` is ``8 * b < 20`` for l below 4: 8 * b passes no multiple of 4 between.
    """
    given = differences(condition)
    if len(given) != 1 or not isinstance(condition, Binary) or condition.op == "and":
        return condition
    sums, constant = sum_of(given[0])
    if any(uses(atom, (var,)) for atom in sums if atom is not var):
        return condition
    step = gcd(*(factor for atom, factor in sums.items() if atom is not var))
    ends = (constant, constant + sums.get(var, 0) * (lanes - 1))
    if step and len({end // step for end in ends}) == 1:
        return simplify(substitute(condition, {var: Const(0)}))
    return condition
