"""GEMM as few large products: micro-ops regrouped by the weights they share.

Sums that wrap do not depend on their order, so an instruction's micro-ops may be taken in any:
entries of ACC that need the same sequence of weights form the rows of one matrix product, and
instructions' loops extend its rows, its reduction or the stack of products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["Loop", "Product", "expand", "make_products"]

_Index = NDArray[np.int64]


@dataclass(frozen=True)
class Loop:
    """One of an instruction's two loops: its count, and what an iteration adds."""

    count: int
    dst: int
    src: int
    wgt: int


@dataclass(frozen=True)
class Product:
    """A stack of g products of p rows with r blocks to reduce.

    ``acc[dst[g, p]] += sum over r of inp[src[g, p, r]] @ wgt[wgt[g, r]]``

    Attributes
    ----------
    dst : ndarray of int64, shape (g, p)
    src : ndarray of int64, shape (g or 1, p, r)
        One matrix where all products of the stack read the same.
    wgt : ndarray of int64, shape (g, r)
    """

    dst: _Index
    src: _Index
    wgt: _Index

    @cached_property
    def entries(self) -> slice | _Index:
        """Index into WGT: a slice, which copies nothing, where entries follow each other."""
        flat = self.wgt.ravel()
        first = int(flat[0])
        in_order = bool((flat == np.arange(first, first + len(flat))).all())
        return slice(first, first + len(flat)) if in_order else self.wgt

    def pieces(self, terms: int, entries: int) -> list[Product]:
        """Split into products of at most `terms` blocks to reduce, gathering about `entries`."""
        groups, rows, every = self.src.shape
        step = max(1, entries // (groups * min(every, terms)))
        return [
            Product(
                np.ascontiguousarray(self.dst[:, row : row + step]),
                np.ascontiguousarray(self.src[:, row : row + step, term : term + terms]),
                np.ascontiguousarray(self.wgt[:, term : term + terms]),
            )
            for row in range(0, rows, step)
            for term in range(0, every, terms)
        ]


def make_products(
    dst: _Index, src: _Index, wgt: _Index, loops: tuple[Loop, ...], overwrite: bool
) -> list[Product]:
    """Regroup a micro-op kernel of shape (n,) and the loops around it.

    With `overwrite` only the last product of each ACC entry remains.
    """
    loops = tuple(loop for loop in loops if loop.count > 1)
    products = _regroup(dst, src, wgt)
    for loop in loops:
        products = [_extend(product, loop) for product in products]
    if not overwrite:
        return products
    targets = np.concatenate([product.dst.ravel() for product in products])
    count = sum(product.src.shape[1] * product.wgt.size for product in products)
    if count == len(np.unique(targets)):
        return products
    every = expand(dst, src, wgt, loops)
    _, last = np.unique(every[0][::-1], return_index=True)
    kept = len(every[0]) - 1 - last
    return _regroup(*(column[kept] for column in every))


def expand(
    dst: _Index, src: _Index, wgt: _Index, loops: tuple[Loop, ...]
) -> tuple[_Index, _Index, _Index]:
    """Return the micro-ops of every iteration in order; the first loop is the outermost."""
    for loop in reversed(loops):
        steps = np.arange(loop.count)[:, np.newaxis]
        dst, src, wgt = (
            (column + steps * factor).ravel()
            for column, factor in ((dst, loop.dst), (src, loop.src), (wgt, loop.wgt))
        )
    return dst, src, wgt


def _regroup(dst: _Index, src: _Index, wgt: _Index) -> list[Product]:
    order = np.lexsort((src, wgt, dst))
    dst, src, wgt = dst[order], src[order], wgt[order]
    starts = np.flatnonzero(np.diff(dst, prepend=-1))
    terms = np.diff(starts, append=len(dst))
    products = []
    for r in _distinct(terms):
        rows = starts[terms == r]
        at = rows[:, np.newaxis] + np.arange(r)
        products += _stack(dst[rows], src[at], wgt[at])
    return products


def _stack(dst: _Index, src: _Index, wgt: _Index) -> list[Product]:
    """Group rows, shapes (n,), (n, r), (n, r), by their weights, then groups by size."""
    if (wgt == wgt[:1]).all():
        return [Product(dst[np.newaxis], src[np.newaxis], wgt[:1])]
    order = np.lexsort(wgt.T[::-1])
    changes = (np.diff(wgt[order], axis=0) != 0).any(axis=1)
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
    sizes = np.diff(starts, append=len(dst))
    products = []
    for p in _distinct(sizes):
        at = order[starts[sizes == p][:, np.newaxis] + np.arange(p)]
        stacked = src[at]
        if (stacked == stacked[:1]).all():
            stacked = stacked[:1]
        products.append(Product(dst[at], stacked, wgt[at[:, 0]]))
    return products


def _extend(product: Product, loop: Loop) -> Product:
    steps = np.arange(loop.count)
    dst, src, wgt = product.dst, product.src, product.wgt
    groups, rows = dst.shape
    if loop.dst == 0:
        reduced = src[..., np.newaxis, :] + (steps * loop.src)[:, np.newaxis]
        weights = wgt[:, np.newaxis] + (steps * loop.wgt)[:, np.newaxis]
        return Product(dst, reduced.reshape(len(src), rows, -1), weights.reshape(groups, -1))
    if loop.wgt == 0:
        targets = dst[:, np.newaxis] + (steps * loop.dst)[:, np.newaxis]
        sources = src[:, np.newaxis] + (steps * loop.src)[:, np.newaxis, np.newaxis]
        shape = (len(src), -1, src.shape[2])
        return Product(targets.reshape(groups, -1), sources.reshape(shape), wgt)
    if loop.src != 0:
        src = np.broadcast_to(src, (groups, *src.shape[1:]))
        moved = src + (steps * loop.src)[:, np.newaxis, np.newaxis, np.newaxis]
        src = moved.reshape(-1, *src.shape[1:])
    elif len(src) > 1:
        src = np.tile(src, (loop.count, 1, 1))
    return Product(
        (dst + (steps * loop.dst)[:, np.newaxis, np.newaxis]).reshape(-1, rows),
        src,
        (wgt + (steps * loop.wgt)[:, np.newaxis, np.newaxis]).reshape(-1, wgt.shape[1]),
    )


def _distinct(values: _Index) -> list[int]:
    found: list[int] = np.unique(values).tolist()
    return found
