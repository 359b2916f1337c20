"""Virtual threads: what of a thread's loops each of them runs for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vdla.compiler.ir.linear import uses
from vdla.compiler.ir.stmt import Access, Alloc, For, Intrinsic, Stmt, Store, walk_stmts
from vdla.compiler.lower.copies import map_accesses, own_copy, renamed
from vdla.compiler.te.expr import Const, Var

from .kernel import Loop, Statement

__all__ = ["Virtual", "each", "sums_up", "with_copies", "within_registers"]

Virtual = tuple[tuple[Var, int], ...]
"""Loops of virtual threads, outermost first, and how many of them there are."""


def with_copies(stmt: Alloc, threads: Virtual) -> Alloc:
    """Return an allocation with a copy for each virtual thread, each reaching its own.

    Before, inside loops of 2 virtual threads v: ``alloc sums (16): sums[i] = 0``. After:
    ``alloc sums (2 x 16): sums[16 * v + i] = 0``.
    """
    if not threads:
        return stmt
    copies = replace(stmt.buffer, threads=threads)
    body = map_accesses(
        renamed(stmt.body, stmt.buffer, copies),
        lambda access: own_copy(access) if access.buffer is copies else access,
    )
    return Alloc(copies, body)


def each(threads: Virtual, body: Statement) -> Statement:
    """Return a statement as often as there are virtual threads, for a compiler to write out."""
    for var, count in reversed(threads):
        body = Loop(var, Const(count), body, unroll=True)
    return body


def sums_up(stmt: Stmt, threads: Virtual) -> bool:
    """Tell whether a statement is a loop that can run outside those of virtual threads.

    So it is where all write the same elements at every step, each its own: a loop of a reduction.
    """
    if not isinstance(stmt, For) or stmt.kind not in ("serial", "unroll"):
        return False
    written = [access.offset for part in walk_stmts(stmt.body) for access in _written(part)]
    return not uses(stmt.extent, [var for var, _ in threads]) and not any(
        uses(offset, (stmt.var,)) for offset in written
    )


def within_registers(stmt: Stmt, scope: str) -> bool:
    """Tell whether a statement writes arrays of one scope alone, and reads nothing of memory."""
    if any(isinstance(part, Alloc) for part in walk_stmts(stmt)):
        return False
    parts = [part for part in walk_stmts(stmt) if isinstance(part, (Intrinsic, Store))]
    read = [a for part in parts for a in (part.loads if isinstance(part, Store) else part.operands)]
    written = [access for part in parts for access in _written(part)]
    return all(a.buffer.scope == scope for a in written) and not any(
        access.buffer.scope == "global" for access in read
    )


def _written(stmt: Stmt) -> Sequence[Access]:
    if isinstance(stmt, Store):
        return (stmt.target,)
    return (stmt.output,) if isinstance(stmt, Intrinsic) else ()
