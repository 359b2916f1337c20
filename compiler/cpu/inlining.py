"""Which stages are computed where they are read, and keep no buffer."""

from __future__ import annotations

from math import prod

from vdla.compiler.te import Schedule, Stage
from vdla.compiler.te.expr import Binary, Call, Expr, Read, Reduce, Select
from vdla.compiler.te.traverse import walk

__all__ = ["inline_cheap", "work_of"]

_FEW = 3
"""Operations that are sooner repeated than their result stored and loaded again."""


def inline_cheap(schedule: Schedule) -> None:
    """Put into their readers the stages that then cost no more, or hardly more.

    A stage that one other reads, each element about once, is inlined whatever it computes; one that
    is read more often where it only moves elements, or computes next to nothing and is not read by
    a reduction. Reductions and outputs keep their loops.
    """
    for stage in schedule.stages:
        if stage.tensor in schedule.outputs or isinstance(stage.body, Reduce):
            continue
        sites = [
            (reader, part)
            for reader in schedule.stages
            for part in walk(reader.body)
            if isinstance(part, Read) and part.tensor is stage.tensor
        ]
        size = prod(stage.tensor.shape)
        once = len(sites) == 1 and _iterations(sites[0][0]) <= size
        reduced = any(isinstance(reader.body, Reduce) for reader, _ in sites)
        cost = work_of(stage.body)
        few = cost <= _FEW and not reduced and all(_iterations(r) <= size for r, _ in sites)
        if once or few or cost == 0:
            stage.compute_inline()


def _iterations(stage: Stage) -> float:
    """Return how often a stage's body is computed."""
    steps = [getattr(axis.extent, "value", float("inf")) for axis in stage.reduce_axis]
    return prod(stage.tensor.shape) * prod(steps)


def work_of(body: Expr) -> int:
    """Return about how many operations an element takes, those of indices left out."""
    if isinstance(body, Read):
        return 8 if any(isinstance(p, Read) for index in body.indices for p in walk(index)) else 0
    if isinstance(body, Call):
        return sum(map(work_of, body.args)) + (0 if body.name == "wrap" else 10)
    if isinstance(body, Binary):
        return work_of(body.a) + work_of(body.b) + (10 if body.op in ("/", "//", "%") else 1)
    if isinstance(body, Select):
        return 4 + sum(map(work_of, (body.condition, body.then, body.other)))
    if isinstance(body, Reduce):
        return work_of(body.source) + 1
    return work_of(body.value) if hasattr(body, "value") and isinstance(body.value, Expr) else 0
