"""Sums of products as products of two matrices: rows of what is read, by columns of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from vdla.compiler.cpu.define.indexing import unflattened
from vdla.compiler.ir.linear import simplify, variables
from vdla.compiler.targets.gpu.matrices import CENTRE, LEFT, RIGHT, SIDE, SUM_TYPES
from vdla.compiler.te import IterVar, Tensor, compute, reduce_axis, sum_over
from vdla.compiler.te.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    ExprLike,
    Read,
    Reduce,
    Select,
    Var,
    all_of,
    as_expr,
    select,
)
from vdla.compiler.te.traverse import map_expr, substitute, walk

__all__ = ["STEP_BYTES", "Product", "product_of"]

STEP_BYTES = 64
"""Of a row's terms that a block fetches at a time, at the most."""
_LANES = {"float16": (8,), "int8": (16, 8, 4), "uint8": (16, 8, 4)}
"""Elements of vectors, the largest of 128 bits."""


@dataclass(frozen=True, eq=False)
class Product:
    """A tensor in terms of a product of matrices, or of a batch of products.

    Attributes
    ----------
    output : Tensor
        Computes what the original did.
    sums : Tensor
        ``sums[..., m, n] = sum(held[0][..., m, k] * held[1][..., k, n])``, in float32 or int32.
    held : tuple of Tensor
        The factors as warps multiply them, in float16, int8 or uint8.
    left, right : Tensor
        What these are made of: (..., m, k) and (..., k, n), or (..., n, k) of 8-bit integers. Rows
        and columns are multiples of `SIDE`, terms of `depth`; what is added to them adds 0. Where
        `left` is uint8 and what warps hold of it int8, they take 128 off it.
    rows, columns : int
        Of the product before.
    depth : int
        Terms of a step.
    lanes : tuple of int
        Elements of a row of each factor that follow each other in memory, wherever such a group
        begins: as many as a vector has, or 1.
    turned : bool
        Whether what follows each other in memory are elements of a column of `right`, which has
        its terms last.
    """

    output: Tensor
    sums: Tensor
    held: tuple[Tensor, Tensor]
    left: Tensor
    right: Tensor
    rows: int
    columns: int
    depth: int
    lanes: tuple[int, int]
    turned: bool

    @property
    def by_columns(self) -> bool:
        """Whether `right` has its terms last."""
        return self.right.dtype != "float16"


@dataclass(frozen=True)
class _Factors:
    """Two factors as they are read, and the dtype in which they are multiplied."""

    left: Expr
    right: Expr
    dtype: str


def product_of(output: Tensor) -> Product | None:
    """Return a tensor that is made of sums of products in terms of a product of matrices.

    Before, of images (2, 8, 8, 16) and weights (3, 3, 16, 32)::

        sums[n, h, w, o] = sum over i, j, k of images[n, h + i, w + j, k] * weights[i, j, k, o]

    After::

        left[m, t] = images[m // 36, m // 6 % 6 + t // 48, m % 6 + t // 16 % 3, t % 16]   (72, 144)
        right[t, o] = weights[t // 48, t // 16 % 3, t % 16, o]                            (144, 32)
        sums[m, o] = sum over t of left[m, t] * right[t, o]

    8-bit integers have ``right[o, t]``: an instruction takes four terms of a column at a time.

    Axes that both factors are indexed by make a batch; they come first, then those of rows, and
    one of columns.

    Parameters
    ----------
    output : Tensor
        Of the shape of the sums.

    Returns
    -------
    Product or None
        None where the output is not made of one sum of products, of float16 in float32 or of int8
        or uint8 in int32, both factors alike, or its axes come in another order. A left factor of
        uint8 less 128 is one of int8.
    """
    sums = _sums(output)
    if sums is None or sums.shape != output.shape:
        return None
    body = sums.body
    assert isinstance(body, Reduce)
    factors = _factors(body)
    groups = None if factors is None else _groups(sums, factors)
    if factors is None or groups is None or any(not isinstance(a.extent, Const) for a in body.axes):
        return None
    batch, down, across = groups
    m, n, t = (_extents(axes) for axes in (down, across, body.axes))
    rows, columns, terms = prod(m), prod(n), prod(t)
    lead, dtype, kind = _extents(batch), factors.dtype, SUM_TYPES[factors.dtype]
    depth = min(STEP_BYTES // np.dtype(dtype).itemsize, _up(terms, SIDE))

    def factor(value: Expr, own: Sequence[IterVar], size: int, *, turned: bool) -> Tensor:
        shape = (_up(size, SIDE), _up(terms, depth))

        def element(*index: Expr) -> Expr:
            *at, first, second = (as_expr(i) for i in index)
            place, term = (second, first) if turned else (first, second)
            values = {
                **_values(batch, at),
                **_values(own, unflattened(place, _extents(own))),
                **_values(body.axes, unflattened(term, t)),
            }
            moved = substitute(value, values)
            inside = [place.lt(size)] if size < shape[0] else []
            if terms < shape[1] and not _reaches(moved, term, shape[1]):
                inside.append(term.lt(terms))
            return select(all_of(*inside), moved, 0) if inside else moved

        (name, *_) = (part.tensor.name for part in walk(value) if isinstance(part, Read))
        return compute((*lead, *(shape[::-1] if turned else shape)), element, name)

    by_columns = dtype != "float16"
    left = factor(factors.left, down, rows, turned=False)
    right = factor(factors.right, across, columns, turned=not by_columns)
    held = _held(left, dtype, LEFT), _held(right, dtype, RIGHT, turned=by_columns)
    k = reduce_axis(_up(terms, depth), "k")
    made = compute(
        (*lead, _up(rows, SIDE), _up(columns, SIDE)),
        lambda *i: sum_over(
            held[0][(*i[:-1], k)].astype(kind) * held[1][(*i[:-2], k, i[-1])].astype(kind), k
        ),
        sums.name,
    )
    count = len(batch)

    def replaced(indices: Sequence[Expr]) -> Read:
        place = _place(indices[count : count + len(down)], m)
        return made[(*indices[:count], place, _place(indices[count + len(down) :], n))]

    if sums is output:
        new = compute(output.shape, lambda *i: replaced([as_expr(one) for one in i]), output.name)
    else:
        new = _Rebuilder(sums, replaced).tensor(output)
    lanes = _lanes(left), _lanes(right)
    turned = by_columns and _run(right)[0] is right.axes[-2].var
    return Product(new, made, held, left, right, rows, columns, depth, lanes, turned)


def _held(given: Tensor, dtype: str, scope: str, *, turned: bool = False) -> Tensor:
    """Return what warps hold of a factor."""
    *lead, first, second = given.shape

    def element(*index: ExprLike) -> Expr:
        *at, i, j = index
        value = given[(*at, j, i) if turned else index]
        return value if given.dtype == dtype else (value.astype("int32") - CENTRE).astype(dtype)

    shape = (*lead, second, first) if turned else given.shape
    return compute(shape, element, f"{given.name}.{scope}")


def _reaches(value: Expr, term: Expr, terms: int) -> bool:
    """Tell whether rows of integers have elements past the last term, which 0 is multiplied with.

    The other factor's rows have none there: what stands in memory is a number anyway.
    """
    return (
        isinstance(value, Read)
        and value.dtype != "float16"
        and value.tensor.shape[-1] >= terms
        and simplify(value.indices[-1]) == simplify(term)
    )


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


def _factors(body: Reduce) -> _Factors | None:
    source = body.source
    if body.kind != "sum" or body.start is not None:
        return None
    if not (isinstance(source, Binary) and source.op == "*"):
        return None
    a, b = source.a, source.b
    dtype = ""
    if isinstance(a, Binary) and a.op == "-" and a.b == Const(CENTRE):
        a, dtype = a.a, "int8"
    if not (isinstance(a, Cast) and isinstance(b, Cast)):
        return None
    if dtype and a.value.dtype != "uint8":
        return None
    dtype = dtype or a.value.dtype
    alike = dtype == b.value.dtype and SUM_TYPES.get(dtype) == source.dtype
    return _Factors(a.value, b.value, dtype) if alike else None


def _groups(
    sums: Tensor, factors: _Factors
) -> tuple[list[IterVar], list[IterVar], list[IterVar]] | None:
    """Return the axes of a batch, of rows and of columns; None where they lie in another order."""
    own = variables(factors.left), variables(factors.right)
    groups: tuple[list[IterVar], list[IterVar], list[IterVar]] = ([], [], [])
    for axis in sums.axes:
        in_left, in_right = (axis.var in used for used in own)
        groups[0 if in_left and in_right else 1 if in_left else 2 if in_right else 1].append(axis)
    batch, down, across = groups
    ordered = [*batch, *down, *across] == list(sums.axes)
    return groups if ordered and down and len(across) == 1 else None


def _run(factor: Tensor) -> tuple[Expr, int]:
    """Return the axis along which elements follow each other in memory, and how many then do."""
    assert factor.body is not None
    value = factor.body.then if isinstance(factor.body, Select) else factor.body
    if not isinstance(value, Read):
        return value, 1
    index, length = simplify(value.indices[-1]), value.tensor.shape[-1]
    if isinstance(index, Binary) and index.op == "%" and isinstance(index.b, Const):
        return index.a, gcd(length, index.b.value)
    return index, length


def _lanes(factor: Tensor) -> int:
    """Return how many elements of a row are whole vectors in memory."""
    axis, length = _run(factor)
    if axis is not factor.axes[-1].var:
        return 1
    return next((lanes for lanes in _LANES[factor.dtype] if length % lanes == 0), 1)


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
