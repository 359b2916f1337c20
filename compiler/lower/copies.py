"""Private copies of buffers: what each virtual thread has of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vdla.compiler.ir.stmt import (
    Access,
    Buffer,
    Copy,
    Intrinsic,
    Move,
    Stmt,
    Store,
    map_stmt,
)

__all__ = ["map_accesses", "own_copy", "renamed"]


def own_copy(access: Access) -> Access:
    """Return an access in the copy of the thread that makes it.

    Before: ``sums[4 * i + j]``, of 16 elements, a copy for each of 2 threads t. After:
    ``sums[16 * t + 4 * i + j]``.
    """
    offset, step = access.offset, access.buffer.size
    for var, count in reversed(access.buffer.threads):
        offset = offset + var * step
        step *= count
    return Access(access.buffer, offset)


def renamed(stmt: Stmt, old: Buffer, new: Buffer) -> Stmt:
    """Return a statement with one buffer in the place of another."""

    def swap(access: Access) -> Access:
        return Access(new, access.offset) if access.buffer is old else access

    return map_accesses(stmt, swap)


def map_accesses(stmt: Stmt, change: Callable[[Access], Access]) -> Stmt:
    """Return a statement with every access changed."""

    def visit(part: Stmt) -> Stmt | None:
        if isinstance(part, Intrinsic):
            operands = tuple(change(operand) for operand in part.operands)
            return replace(part, output=change(part.output), operands=operands)
        if isinstance(part, Move):
            return replace(part, output=change(part.output), operand=change(part.operand))
        if isinstance(part, Copy):
            return replace(part, target=change(part.target), source=change(part.source))
        if isinstance(part, Store):
            return replace(
                part, target=change(part.target), loads=tuple(change(a) for a in part.loads)
            )
        return None

    return map_stmt(stmt, visit)
