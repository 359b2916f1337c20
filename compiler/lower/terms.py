"""Sums that go on past their end: proof that what they add there is 0."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.ir.linear import const_bounds, simplify
from vdla.compiler.te.expr import Binary, Cast, Const, Expr, Read, Real, Reduce
from vdla.compiler.te.stage import Stage
from vdla.compiler.te.tensor import IterVar, Tensor
from vdla.errors import LoweringError

from .regions import Regions

__all__ = ["check_terms"]


def check_terms(stages: list[Stage], regions: Regions) -> None:
    """Check every stage whose steps take as many terms each, past the end of the reduction too.

    A term past the end must be 0 whatever the tensors hold: each factor of it is read from whole
    tiles, at the reduction's own index, of a tensor that ends where the reduction does.

    Raises
    ------
    LoweringError
        It is no sum, or a term is not known to be 0.
    """
    stage_of = {stage.tensor: stage for stage in stages}
    for stage in stages:
        if not stage.whole_terms:
            continue
        region = regions[stage]
        loops = (
            *region.outside,
            *((leaf.var, region.loop_extents[leaf]) for leaf in stage.leaves),
        )
        for axis in stage.reduce_axis:
            past = region.values[axis.var] - axis.extent
            if const_bounds(past, loops)[1] < 0:
                continue
            body = stage.body
            assert isinstance(body, Reduce)
            if body.kind != "sum" or not _zero(body.source, axis, stage_of, regions):
                raise LoweringError(
                    f"A reduction in whole tiles must add 0 past its end, and {stage.name}, over "
                    f"{axis.name}, is not known to: sum up products of tensors that are read at "
                    f"{axis.name} itself, in whole tiles each."
                )


def _zero(expr: Expr, axis: IterVar, stage_of: Mapping[Tensor, Stage], regions: Regions) -> bool:
    """Tell whether an expression is 0 wherever an axis is past its end.

    Every factor of a product has to be: 0 times infinity is no number.
    """
    if isinstance(expr, Cast):
        return _zero(expr.value, axis, stage_of, regions)
    if isinstance(expr, (Const, Real)):
        return expr.value == 0
    if isinstance(expr, Binary) and expr.op in ("*", "+", "-"):
        return all(_zero(part, axis, stage_of, regions) for part in (expr.a, expr.b))
    if not isinstance(expr, Read) or expr.tensor not in stage_of:
        return False
    read = stage_of[expr.tensor]
    return any(
        index is axis.var
        and simplify(axis.extent - size) == Const(0)
        and (own.lt(size) in regions[read].inside)
        for index, size, own in zip(expr.indices, expr.tensor.shape, read.axis, strict=True)
    )
