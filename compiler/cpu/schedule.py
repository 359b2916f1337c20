"""The default schedule of tensors on a processor: right for any tensor expression."""

from __future__ import annotations

from collections.abc import Iterable

from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import Schedule, Tensor, create_schedule

__all__ = ["default_schedule"]


def default_schedule(outputs: Tensor | Iterable[Tensor], target: Target) -> Schedule:
    """Return loops for tensors and all that they are computed from.

    Parameters
    ----------
    outputs : te.Tensor or iterable of te.Tensor
        What is computed.
    target : Target
        Whose vectors the innermost loops fill.
    """
    return create_schedule(outputs)
