"""Sums of products as products of two matrices: rows of what is read, by columns of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler.cpu.define.indexing import unflattened
from vdla.compiler.ir.linear import variables
from vdla.compiler.te import IterVar, Tensor, compute, reduce_axis, sum_over
from vdla.compiler.te.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    ExprLike,
    Read,
    Reduce,
    Var,
    all_of,
    as_expr,
    select,
)
from vdla.compiler.te.traverse import map_expr, substitute, walk

__all__ = ["Product", "product_of"]

_VECTOR = 8
"""Half floats in 128 bits."""


@dataclass(frozen=True, eq=False)
class Product:
    """A tensor in terms of a product of matrices, or of a batch of products.

    Attributes
    ----------
    output : Tensor
        Computes what the original did.
    sums : Tensor
        ``sums[..., m, n] = sum(left[..., m, k] * right[..., k, n])``, in float32.
    left, right : Tensor
        In float16. Rows, columns and terms are multiples of what was asked for; what is added is 0.
    rows, columns : int
        Of the product before.
    lanes : tuple of int
        Elements of a row of each factor that follow each other in memory, wherever such a group
        begins: 8, or 1.
    """

    output: Tensor
    sums: Tensor
    left: Tensor
    right: Tensor
    rows: int
    columns: int
    lanes: tuple[int, int]


def product_of(output: Tensor, tile: int, depth: int) -> Product | None:
    """Return a tensor that is made of sums of products in terms of a product of matrices.

    Before, of images (2, 8, 8, 16) and weights (3, 3, 16, 32)::

        sums[n, h, w, o] = sum over i, j, k of images[n, h + i, w + j, k] * weights[i, j, k, o]

    After::

        left[m, t] = images[m // 36, m // 6 % 6 + t // 48, m % 6 + t // 16 % 3, t % 16]   (72, 144)
        right[t, o] = weights[t // 48, t // 16 % 3, t % 16, o]                            (144, 32)
        sums[m, o] = sum over t of left[m, t] * right[t, o]

    Axes that both factors are indexed by make a batch; they come first, then those of rows, and
    one of columns.

    Parameters
    ----------
    output : Tensor
        Of the shape of the sums.
    tile : int
        Of which rows and columns become multiples.
    depth : int
        Of which the number of terms becomes a multiple.

    Returns
    -------
    Product or None
        None where the output is not made of one sum of products of float16 in float32, or its axes
        come in another order.
    """
    sums = _sums(output)
    if sums is None or sums.shape != output.shape:
        return None
    body = sums.body
    assert isinstance(body, Reduce)
    factors = _factors(body)
    groups = None if factors is None else _groups(sums, *factors)
    if factors is None or groups is None or any(not isinstance(a.extent, Const) for a in body.axes):
        return None
    batch, down, across = groups
    m, n, t = (_extents(axes) for axes in (down, across, body.axes))
    rows, columns, terms = prod(m), prod(n), prod(t)
    lead = _extents(batch)

    def factor(value: Expr, own: Sequence[IterVar], size: int, *, left: bool) -> Tensor:
        shape = (_up(size, tile), _up(terms, depth))

        def element(*index: Expr) -> Expr:
            *at, first, second = (as_expr(i) for i in index)
            place, term = (first, second) if left else (second, first)
            inside = [place.lt(size)] if size < shape[0] else []
            inside += [term.lt(terms)] if terms < shape[1] else []
            values = {
                **_values(batch, at),
                **_values(own, unflattened(place, _extents(own))),
                **_values(body.axes, unflattened(term, t)),
            }
            moved = substitute(value, values)
            return select(all_of(*inside), moved, 0) if inside else moved

        (name, *_) = (part.tensor.name for part in walk(value) if isinstance(part, Read))
        return compute((*lead, *(shape if left else shape[::-1])), element, name)

    left = factor(factors[0], down, rows, left=True)
    right = factor(factors[1], across, columns, left=False)
    k = reduce_axis(_up(terms, depth), "k")
    made = compute(
        (*lead, _up(rows, tile), _up(columns, tile)),
        lambda *i: sum_over(
            left[(*i[:-1], k)].astype("float32") * right[(*i[:-2], k, i[-1])].astype("float32"), k
        ),
        sums.name,
    )
    count = len(batch)

    def replaced(indices: Sequence[Expr]) -> Read:
        place = _place(indices[count : count + len(down)], m)
        return made[(*indices[:count], place, _place(indices[count + len(down) :], n))]

    new = _Rebuilder(sums, replaced).tensor(output)
    lanes = (_lanes(factors[0], body.axes[-1]), _lanes(factors[1], across[-1]))
    return Product(new, made, left, right, rows, columns, lanes)


class _Rebuilder:
    """Puts reads of another tensor in the place of one's, in all that is made of it."""

    def __init__(self, old: Tensor, read: Callable[[Sequence[Expr]], Read]) -> None:
        self._old, self._read = old, read
        self._made: dict[Tensor, Tensor] = {}

    def tensor(self, tensor: Tensor) -> Tensor:
        if tensor.body is None:
            return tensor
        if tensor not in self._made:
            body = map_expr(tensor.body, self._visit)
            changed = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.axes, body)
            self._made[tensor] = tensor if body == tensor.body else changed
        return self._made[tensor]

    def _visit(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, Read):
            return None
        indices = tuple(map_expr(index, self._visit) for index in expr.indices)
        if expr.tensor is self._old:
            return self._read(indices)
        return Read(self.tensor(expr.tensor), indices)


def _sums(output: Tensor) -> Tensor | None:
    """Return the one reduction that a tensor is made of."""
    found: dict[Tensor, None] = {}
    seen: set[Tensor] = set()
    waiting = [output]
    while waiting:
        tensor = waiting.pop()
        if tensor in seen or tensor.body is None:
            continue
        seen.add(tensor)
        if isinstance(tensor.body, Reduce):
            found[tensor] = None
        waiting += [part.tensor for part in walk(tensor.body) if isinstance(part, Read)]
    return next(iter(found)) if len(found) == 1 else None


def _factors(body: Reduce) -> tuple[Expr, Expr] | None:
    source = body.source
    if body.kind != "sum" or body.start is not None:
        return None
    if not (isinstance(source, Binary) and source.op == "*"):
        return None
    a, b = source.a, source.b
    if not (isinstance(a, Cast) and isinstance(b, Cast)):
        return None
    halves = a.value.dtype == b.value.dtype == "float16"
    return (a.value, b.value) if halves and source.dtype == "float32" else None


def _groups(
    sums: Tensor, left: Expr, right: Expr
) -> tuple[list[IterVar], list[IterVar], list[IterVar]] | None:
    """Return the axes of a batch, of rows and of columns; None where they lie in another order."""
    own = variables(left), variables(right)
    groups: tuple[list[IterVar], list[IterVar], list[IterVar]] = ([], [], [])
    for axis in sums.axes:
        in_left, in_right = (axis.var in used for used in own)
        groups[0 if in_left and in_right else 1 if in_left else 2 if in_right else 1].append(axis)
    batch, down, across = groups
    ordered = [*batch, *down, *across] == list(sums.axes)
    return groups if ordered and down and len(across) == 1 else None


def _lanes(factor: Expr, last: IterVar) -> int:
    """Return how many elements along an axis are whole vectors in memory."""
    whole = (
        isinstance(factor, Read)
        and factor.indices[-1] is last.var
        and factor.tensor.shape[-1] % _VECTOR == 0
    )
    return _VECTOR if whole else 1


def _extents(axes: Sequence[IterVar]) -> tuple[int, ...]:
    return tuple(axis.extent.value for axis in axes if isinstance(axis.extent, Const))


def _values(axes: Sequence[IterVar], index: Sequence[ExprLike]) -> dict[Var, Expr]:
    return {axis.var: as_expr(i) for axis, i in zip(axes, index, strict=True)}


def _place(index: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """Return a place in row-major order, of dimensions of one element too.

    With those, an index that is made of such a place comes to the place again.
    """
    place: Expr = Const(0)
    for i, extent in zip(index, shape, strict=True):
        place = place * extent + i
    return place


def _up(size: int, by: int) -> int:
    return -(-size // by) * by
