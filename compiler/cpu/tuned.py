"""What a tuned operator gives to the group that it heads: its sums, and how to schedule them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vdla.compiler.te import IterVar, Schedule, Stage, Tensor
from vdla.compiler.te.expr import Const

__all__ = ["Tuned", "parallel", "unroll_all", "unrolled_steps"]


@dataclass(frozen=True)
class Tuned:
    """The head of a group, with stages of its own.

    Attributes
    ----------
    output : Tensor
        The node's output, in the graph's layout: other definitions read it.
    stages : tuple of Tensor
        What it computes on the way and schedules itself.
    schedule : callable
        ``(schedule, final)``: schedules those around the loops of the tensor that the group
        computes, whose dimensions are those of `output`.
    """

    output: Tensor
    stages: tuple[Tensor, ...]
    schedule: Callable[[Schedule, Tensor], None]


def unroll_all(stage: Stage, axes: Iterable[IterVar]) -> None:
    """Unroll loops whose tile lies in registers."""
    for axis in axes:
        stage.unroll(axis)


def parallel(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """Run outer loops, neighbours, as one on all threads; return that one."""
    spread = axes[0]
    for axis in axes[1:]:
        spread = stage.fuse(spread, axis)
    stage.parallel(spread)
    return spread


def unrolled_steps(stage: Stage, axis: IterVar, steps: int) -> list[IterVar]:
    """Unroll some steps of a reduction's innermost loop; return the loops that it becomes."""
    if axis.extent == Const(steps):
        stage.unroll(axis)
        return [axis]
    if steps == 1:
        return [axis]
    many, few = stage.split(axis, factor=steps)
    stage.unroll(few)
    return [many, few]
