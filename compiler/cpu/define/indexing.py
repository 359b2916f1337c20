"""Which element of an input an element of the output reads."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vdla.compiler.te import Expr, Tensor, pick
from vdla.compiler.te.expr import Const, ExprLike, Real, as_expr

from .site import Site

__all__ = ["Index", "broadcast", "chosen", "flattened", "read", "regrouped", "unflattened"]

Index = Sequence[ExprLike]


def broadcast(tensor: Tensor, index: Index) -> Expr:
    """Return the element that numpy's broadcasting puts at an index."""
    last = index[len(index) - len(tensor.shape) :]
    places = (0 if size == 1 else i for size, i in zip(tensor.shape, last, strict=True))
    return tensor[tuple(places)]


def read(site: Site, k: int, index: Index) -> Expr:
    """Return the element of an input broadcast to an index; one that is constant is a number."""
    data = site.value(k)
    if data is None or data.size != 1:
        return broadcast(site.input(k), index)
    number = data.reshape(-1)[0]
    dtype = str(data.dtype)
    return Real(float(number), dtype) if data.dtype.kind == "f" else Const(int(number), dtype)


def flattened(index: Index, shape: Sequence[int]) -> Expr:
    """Return the place of an element in row-major order."""
    flat: Expr = Const(0)
    for i, extent in zip(index, shape, strict=True):
        flat = flat * extent + (0 if extent == 1 else i)
    return flat


def unflattened(flat: Expr, shape: Sequence[int]) -> list[Expr]:
    """Return the index of a place in row-major order."""
    index: list[Expr] = []
    for k in range(len(shape) - 1, -1, -1):
        rest = any(extent > 1 for extent in shape[:k])
        index.append(Const(0) if shape[k] == 1 else flat % shape[k] if rest else flat)
        flat = flat // shape[k]
    return index[::-1]


def regrouped(index: Index, shape: Sequence[int], target: Sequence[int]) -> tuple[Expr, ...]:
    """Return the index, in a tensor of shape `target`, of the element at the same place.

    ``(n, y, x, c)`` of (2, 3, 4, 8) is ``(n, 4 y + x, c)`` of (2, 12, 8): dimensions that both
    shapes share stay apart.
    """
    found: list[Expr] = []
    i = j = 0
    while i < len(shape) or j < len(target):
        ours, theirs = i + 1, j + 1
        while (size := prod(shape[i:ours])) != (other := prod(target[j:theirs])):
            ours, theirs = ours + (size < other), theirs + (size > other)
        flat = flattened(index[i:ours], shape[i:ours])
        found += unflattened(flat, target[j:theirs])
        i, j = ours, theirs
    return tuple(found)


def chosen(values: Sequence[int], at: ExprLike) -> Expr:
    """Return ``values[at]``: a formula where one fits, such as ``at // 2``, or a table."""
    table = tuple(int(value) for value in values)
    index, count = as_expr(at), len(table)
    step = table[1] - table[0] if count > 1 else 1
    if table == tuple(table[0] + step * k for k in range(count)):
        return index * step + table[0]
    repeats = next(k for k, value in enumerate(table) if value != table[0])
    if table == tuple(table[0] + k // repeats for k in range(count)):
        return index // repeats + table[0]
    return pick(table, index)
