"""Lowering: one list of stages from a schedule to verified loop IR."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from vdla.compiler.ir.printer import stmt_text
from vdla.compiler.ir.stmt import Buffer, Stmt
from vdla.compiler.ir.verify import verify
from vdla.compiler.te import Schedule, Tensor

from .nest import build_nests
from .vthread import interleave_threads

__all__ = ["dump", "lower"]


def lower(schedule: Schedule, *, interleave: bool = True) -> tuple[Stmt, Mapping[Tensor, Buffer]]:
    """Return the loops of a schedule, and its tensors' buffers.

    Stages, in order; ``VDLA_DUMP`` set to a stage's name, or to ``all``, prints what it leaves:

    ``nests``
        inlining, the region of each stage, loops, matched intrinsics, copies;
    ``threads``
        virtual threads as one interleaved stream over private buffers.

    Parameters
    ----------
    schedule : Schedule
    interleave : bool
        Whether virtual threads become a stream here. A GPU's are left as loops: they lie outside
        loops of real threads, whose extents may differ between them.

    Raises
    ------
    LoweringError
        The schedule cannot be lowered, or the IR breaks a rule after a stage.
    """
    nest = build_nests(schedule)
    _after("nests", nest.body)
    body = interleave_threads(nest.body) if interleave else nest.body
    _after("threads", body, changed=body is not nest.body)
    return body, nest.arguments


def _after(stage: str, body: Stmt, *, changed: bool = True) -> None:
    dump(stage, lambda: stmt_text(body))
    if changed:
        verify(body, stage, threads=stage == "nests")


def dump(stage: str, text: Callable[[], str]) -> None:
    """Print a stage's result on standard error where ``VDLA_DUMP`` asks for it.

    Parameters
    ----------
    stage : str
        Name that ``VDLA_DUMP`` may hold.
    text : callable
        Makes the text; called only when it is printed.
    """
    wanted = os.environ.get("VDLA_DUMP", "")
    if wanted in ("all", stage):
        sys.stderr.write(f"# after {stage}\n{text()}\n")
