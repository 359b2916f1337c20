"""Kernels with a barrier left out, or with their guards, to see that these are missed."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.targets.gpu.kernel import (
    Barrier,
    Guard,
    Kernel,
    Loop,
    Sequence,
    Statement,
    walk,
)

__all__ = ["barriers_of", "unguarded", "without"]


def barriers_of(kernel: Kernel) -> list[Barrier]:
    """Return a kernel's barriers, in order."""
    return [part for part in walk(kernel.body) if isinstance(part, Barrier)]


def without(kernel: Kernel, barrier: Barrier) -> Kernel:
    """Return a kernel without one of its barriers."""
    return replace(kernel, body=_without(kernel.body, barrier))


def unguarded(kernel: Kernel) -> Kernel:
    """Return a kernel whose statements all threads run."""
    return replace(kernel, body=_unguarded(kernel.body))


def _unguarded(stmt: Statement) -> Statement:
    if isinstance(stmt, Guard):
        return _unguarded(stmt.body)
    if isinstance(stmt, Loop):
        return replace(stmt, body=_unguarded(stmt.body))
    if isinstance(stmt, Sequence):
        return Sequence(tuple(map(_unguarded, stmt.stmts)))
    return stmt


def _without(stmt: Statement, unwanted: Statement) -> Statement:
    if isinstance(stmt, (Guard, Loop)):
        return replace(stmt, body=_without(stmt.body, unwanted))
    if isinstance(stmt, Sequence):
        kept = (child for child in stmt.stmts if child is not unwanted)
        return Sequence(tuple(_without(child, unwanted) for child in kept))
    return stmt
