"""Products of matrices."""

from __future__ import annotations

from vdla.compiler.te import Expr, Tensor, reduce_axis, sum_over
from vdla.compiler.te.expr import ExprLike, as_expr

from .indexing import regrouped
from .site import Site
from .windows import accumulator, centred, finished

__all__ = ["dense", "entry", "matmul"]


def dense(site: Site) -> Tensor:
    """Rows of the input by weights (O, I), which lie as (I, O) where they are constant."""
    x, data = site.input(0), site.value(1)
    outputs, depth = site.tensors[1].shape
    rows = site.output.size // outputs
    finish, kind, k = finished(site, (1,), 0), accumulator(x.dtype), reduce_axis(depth, "k")
    if data is None:
        held = site.input(1)
    else:
        data = centred(site, data, 0) if site.quantized else data
        held = site.constant(data.T, site.tensors[1].name)

    def total(r: Expr, o: Expr) -> Expr:
        element = x[regrouped((r, k), (rows, depth), x.shape)].astype(kind)
        factor = (held[o, k] if data is None else held[k, o]).astype(kind)
        return sum_over(element * factor, k)

    sums = site.compute((rows, outputs), total, "sums")
    shape = site.output.shape

    def element(*index: ExprLike) -> Expr:
        return finish(sums[regrouped(index, shape, sums.shape)], as_expr(index[-1]))

    return site.compute(shape, element)


def matmul(site: Site) -> Tensor:
    """As numpy's: leading dimensions broadcast, one dimension is a row or a column."""
    lhs, rhs, shape = site.input(0), site.input(1), site.output.shape
    kind = accumulator(lhs.dtype)
    k = reduce_axis(lhs.shape[-1], "k")
    row, column = len(lhs.shape) > 1, len(rhs.shape) > 1

    def total(*index: ExprLike) -> Expr:
        lead = list(index[: len(index) - row - column])
        left = [*lead, *([index[len(lead)]] if row else []), k]
        right = [*lead, k, *([index[-1]] if column else [])]
        a = entry(lhs, left, min(2, len(lhs.shape)))
        b = entry(rhs, right, min(2, len(rhs.shape)))
        return sum_over(a.astype(kind) * b.astype(kind), k)

    sums = site.compute(shape, total, "sums" if kind != site.dtype else "")
    if kind == site.dtype:
        return sums
    narrow = site.dtype.startswith("float")

    def element(*index: ExprLike) -> Expr:
        total = sums[index]
        return total.astype(site.dtype) if narrow else total.wrap(site.dtype)

    return site.compute(shape, element)


def entry(tensor: Tensor, index: list[ExprLike], own: int) -> Expr:
    """Return an element whose last dimensions are the matrix's own and whose others broadcast."""
    lead = len(tensor.shape) - own
    given = index[: len(index) - own]
    places = [
        0 if size == 1 else i
        for size, i in zip(tensor.shape[:lead], given[len(given) - lead :], strict=True)
    ]
    return tensor[(*places, *index[len(index) - own :])]
