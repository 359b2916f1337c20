"""The default schedule: a thread computes an element, and what is summed up for it."""

from __future__ import annotations

from math import prod

from vdla.compiler.te import Schedule, Tensor, create_schedule
from vdla.compiler.te.expr import Reduce

__all__ = ["schedule_elements"]

_THREADS = 128
"""Of a block: four of NVIDIA's warps, and two of AMD's older wavefronts."""


def schedule_elements(output: Tensor) -> Schedule:
    """Share out a tensor, whatever it computes, a thread an element.

    Before: ``for i: for j: for k: sums[i, j] += ...; for i: for j: out[i, j] = ...``. After::

        for i, j, fused, its outer part (blockIdx.x):
          for its inner part (threadIdx.x):
            for k: sums += ...                         # in a register
            out[i, j] = ... sums ...

    Parameters
    ----------
    output : Tensor
        Of placeholders, and of reductions that it reads element for element.
    """
    schedule = create_schedule(output)
    if isinstance(output.body, Reduce):
        schedule.cache_write(output, "register")
    stage = schedule[output]
    element, *rest = stage.axis
    for axis in rest:
        element = stage.fuse(element, axis)
    block, thread = stage.split(element, factor=min(_THREADS, prod(output.shape)))
    stage.bind(block, "blockIdx.x")
    stage.bind(thread, "threadIdx.x")
    for guest in schedule.stages:
        if guest is not stage:
            guest.set_scope("register")
            guest.compute_at(stage, thread)
    return schedule
