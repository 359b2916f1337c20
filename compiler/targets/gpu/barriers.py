"""Barriers: where threads of a block wait, so that none reads what another has yet to write."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vdla.compiler.ir.linear import uses
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.ir.stmt import Buffer
from vdla.compiler.lower.regions import SHARED
from vdla.errors import LoweringError

from .kernel import THREAD, Barrier, Guard, Loop, Sequence, Statement, accesses, joined, walk

__all__ = ["check_barriers", "place_barriers"]


@dataclass(frozen=True)
class _Since:
    """Shared arrays that some thread may have read, or written, since the last barrier."""

    read: frozenset[Buffer] = frozenset()
    written: frozenset[Buffer] = frozenset()

    def then(self, stmt: Statement) -> _Since:
        read, written = accesses(stmt, SHARED)
        return _Since(self.read | read, self.written | written)

    def clash(self, stmt: Statement) -> frozenset[Buffer]:
        """Return the arrays for which a statement must wait."""
        read, written = accesses(stmt, SHARED)
        return (self.written & (read | written)) | (self.read & written)


def place_barriers(body: Statement) -> Statement:
    """Put barriers between writing shared memory and reading it, and before it is overwritten.

    Before::

        for k:
          a.shared[...] = a[...]
          b.shared[...] = b[...]
          c += a.shared[...] * b.shared[...]

    After::

        for k:
          a.shared[...] = a[...]
          b.shared[...] = b[...]
          barrier
          c += a.shared[...] * b.shared[...]
          barrier

    Raises
    ------
    LoweringError
        A barrier would stand in a loop that threads run a different number of times.
    """
    placed, _ = _place(body, _Since())
    for part in walk(placed):
        if isinstance(part, (Guard, Loop)) and any(isinstance(p, Barrier) for p in walk(part)):
            _check_reached(part)
    return placed


def check_barriers(body: Statement) -> None:
    """Check that no thread can reach what another may not have written, or still reads.

    Two statements that use one shared array, at least one of them writing it, must have a barrier
    between them, from one iteration of a loop to the next as well.

    Raises
    ------
    LoweringError
        Names the array.
    """
    _check(body, _Since())


def _alike(stmt: Statement) -> bool:
    """Tell whether a statement needs no barrier inside: it only fills shared arrays, or reads."""
    return not all(accesses(stmt, SHARED))


def _place(stmt: Statement, since: _Since) -> tuple[Statement, _Since]:
    if isinstance(stmt, Loop) and not _alike(stmt):
        body, after = _place(stmt.body, since)
        try:
            _check(body, after)
        except LoweringError:
            body, after = joined(body, Barrier()), _Since()
        return replace(stmt, body=body), after
    if isinstance(stmt, Sequence):
        placed: list[Statement] = []
        for child in stmt.stmts:
            if since.clash(child):
                placed.append(Barrier())
                since = _Since()
            done, since = _place(child, since)
            placed.append(done)
        return joined(*placed), since
    return stmt, since.then(stmt)


def _check(stmt: Statement, since: _Since) -> _Since:
    if isinstance(stmt, Barrier):
        return _Since()
    if isinstance(stmt, Sequence):
        for child in stmt.stmts:
            since = _check(child, since)
        return since
    if isinstance(stmt, Loop) and not _alike(stmt):
        return _check(stmt.body, _check(stmt.body, since))
    clash = since.clash(stmt)
    if clash:
        names = ", ".join(sorted(buffer.name for buffer in clash))
        raise LoweringError(
            f"Threads must wait for each other between writing and reading shared memory, and "
            f"nothing makes them wait for {names}: put a barrier between the two."
        )
    return since.then(stmt)


def _check_reached(stmt: Guard | Loop) -> None:
    conditions = (stmt.extent,) if isinstance(stmt, Loop) else stmt.conditions
    apart = [condition for condition in conditions if uses(condition, THREAD)]
    if apart:
        raise LoweringError(
            f"All threads must reach a barrier, and {expr_text(apart[0])}, which decides how often "
            "it is reached, differs between them: compute what is shared further out, or make "
            "whole tiles."
        )
