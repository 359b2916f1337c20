"""Sums of integers that cannot leave the range of their dtype."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vdla.compiler.ir.linear import const_bounds
from vdla.compiler.ir.stmt import Buffer, Store
from vdla.compiler.te.expr import Const, Expr, Reduce, Var
from vdla.compiler.te.ranges import dtype_range, value_range

from .kernel import Kernel, walk

__all__ = ["sum_fits", "summed_from_zero"]


def summed_from_zero(kernel: Kernel) -> frozenset[Buffer]:
    """Return the arrays in which reductions of a kernel start from 0."""
    stores = [part for part in walk(kernel.body) if isinstance(part, Store)]
    summed = {s.target.buffer for s in stores if isinstance(s.value, Reduce)}
    starts = [s for s in stores if not isinstance(s.value, Reduce)]
    return frozenset(
        summed - {s.target.buffer for s in starts if s.value != Const(0, s.value.dtype)}
    )


def sum_fits(value: Reduce, loops: Sequence[tuple[Var, Expr]], places: int) -> bool:
    """Tell whether a sum from 0 fits its dtype, as often as a thread's loops can add to it.

    512 products of two int8 lie within 512 * 2**14, which has room in 32 bits. The first
    ``places`` of the loops are where a thread stands: it runs through none of them.
    """
    steps = prod(const_bounds(extent, loops)[1] for _, extent in loops[places:])
    low, high = value_range(value.source)
    least, greatest = dtype_range(value.dtype)
    return least <= low * steps and high * steps <= greatest
