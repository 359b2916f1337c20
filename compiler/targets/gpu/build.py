"""From a schedule to a kernel, as one list of stages."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.ir.printer import stmt_text
from vdla.compiler.lower.narrow import narrow
from vdla.compiler.lower.pipeline import dump, lower
from vdla.compiler.te import Schedule, Tensor
from vdla.compiler.te.axes import BLOCK_AXES, THREAD_AXES
from vdla.errors import LoweringError

from .axes import thread_sizes
from .barriers import check_barriers, place_barriers
from .bounds import check_bounds
from .kernel import Kernel, Parameter
from .limits import check_limits
from .source import source_of
from .threads import Threads

__all__ = ["build_kernel"]


def build_kernel(name: str, schedule: Schedule, args: Sequence[Tensor]) -> Kernel:
    """Return the kernel of a schedule whose loops are bound to blocks and threads.

    Stages, in order; ``VDLA_DUMP`` set to a stage's name prints what it leaves:

    ``nests``
        the loop IR, as for every target;
    ``narrow``
        what the ranges of its loops settle;
    ``kernel``
        what each thread runs: bound loops become its place in the grid, virtual threads are
        unrolled in it, extents that differ become conditions, shared memory is filled by all
        threads, and barriers stand where threads would get ahead of each other.

    Every access is then shown to lie inside its array.

    Parameters
    ----------
    name : str
        The function's.
    schedule : Schedule
        Of one stage at the root, others inside its loops.
    args : sequence of Tensor
        Every input and output of the schedule, in the order in which the caller gives them.

    Raises
    ------
    LoweringError
        The schedule cannot be lowered, or not to a kernel.
    """
    _check_root(schedule)
    body, arguments = lower(schedule, interleave=False)
    if set(arguments) != set(args):
        raise LoweringError(
            f"The arguments of kernel {name} must be the inputs and outputs of its schedule, "
            f"{', '.join(t.name for t in arguments)}, not {', '.join(t.name for t in args)}."
        )
    body = narrow(body)
    dump("narrow", lambda: stmt_text(body))
    sizes = thread_sizes(body)
    threads = Threads(sizes)
    placed = place_barriers(threads.of(body))
    x, y, z = (sizes[axis] for axis in BLOCK_AXES)
    tx, ty, tz = (sizes[axis] for axis in THREAD_AXES)
    kernel = Kernel(
        name,
        tuple(Parameter(arguments[t], t.shape, t in schedule.outputs) for t in args),
        (x, y, z),
        (tx, ty, tz),
        tuple(threads.shared),
        tuple(threads.registers),
        placed,
    )
    dump("kernel", lambda: source_of(kernel))
    check_limits(kernel)
    check_barriers(kernel.body)
    check_bounds(kernel)
    return kernel


def _check_root(schedule: Schedule) -> None:
    roots = [s.name for s in schedule.stages if s.attach is None and not s.inlined]
    if len(roots) != 1:
        raise LoweringError(
            f"A kernel computes one stage at the root, whose loops hold all others, not "
            f"{len(roots)} ({', '.join(roots)}): use compute_at or compute_inline, or make a "
            "kernel of each."
        )
