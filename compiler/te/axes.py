"""What a loop's iterations may be bound to."""

from __future__ import annotations

from vdla.errors import ScheduleError

__all__ = ["BLOCK_AXES", "THREAD_AXES", "check_bound"]

BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
"""Axes of a GPU's grid of blocks."""
THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
"""Axes of the threads of a block."""


def check_bound(thread: str) -> None:
    """Check that a loop can be bound to something of this name.

    Raises
    ------
    ScheduleError
        It is neither ``vthread`` nor an axis of a GPU.
    """
    if thread != "vthread" and thread not in (*BLOCK_AXES, *THREAD_AXES):
        raise ScheduleError(
            "A loop is bound to vthread, or on a GPU to an axis, x, y or z, of blockIdx or "
            f"threadIdx, not to {thread!r}."
        )
