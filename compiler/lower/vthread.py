"""Virtual threads: private buffers, then one interleaved stream."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.ir.linear import const_bounds, uses
from vdla.compiler.ir.stmt import (
    Alloc,
    Block,
    Copy,
    For,
    Intrinsic,
    Move,
    Stmt,
    Store,
    walk_stmts,
)
from vdla.compiler.te.expr import Expr, Var

from .copies import map_accesses, own_copy, renamed

__all__ = ["interleave_threads"]

_Loops = tuple[tuple[Var, Expr], ...]


def interleave_threads(body: Stmt) -> Stmt:
    """Replace loops bound to virtual threads by an interleaved stream.

    Before::

        for t in 2 (vthread):
          alloc a
          for k: a = load(t, k); gemm(a)

    After::

        alloc a (2 copies)
        for k:
          for t in 2 (interleaved): a[t] = load(t, k)
          for t in 2 (interleaved): gemm(a[t])

    Each thread has its own copy of what is allocated inside the loop. Operations alternate
    between threads a phase at a time: all that a thread copies in, then all it computes, then all
    it copies out, so that a whole load phase of one thread overlaps the arithmetic of the other
    once dependence tokens join them.

    A body without virtual threads is returned as it is.
    """
    if not any(isinstance(one, For) and one.kind == "vthread" for one in walk_stmts(body)):
        return body
    return _use_copies(_visit(body, (), ()))


def _visit(stmt: Stmt, threads: _Loops, outside: _Loops) -> Stmt:
    if isinstance(stmt, For) and stmt.kind == "vthread":
        return _visit(stmt.body, (*threads, (stmt.var, stmt.extent)), outside)
    if not threads:
        if isinstance(stmt, For):
            inner = (*outside, (stmt.var, stmt.extent))
            return replace(stmt, body=_visit(stmt.body, (), inner))
        if isinstance(stmt, Alloc):
            return replace(stmt, body=_visit(stmt.body, (), outside))
        if isinstance(stmt, Block):
            return Block(tuple(_visit(child, (), outside) for child in stmt.stmts))
        return stmt
    if isinstance(stmt, Alloc):
        loops = (*outside, *threads)
        counts = tuple((var, const_bounds(extent, loops)[1]) for var, extent in threads)
        copies = replace(stmt.buffer, threads=stmt.buffer.threads + counts)
        body = renamed(stmt.body, stmt.buffer, copies)
        return Alloc(copies, _visit(body, threads, outside))
    if isinstance(stmt, Block):
        return Block(
            tuple(
                _repeat(Block(tuple(run)), threads) if phase else _visit(run[0], threads, outside)
                for phase, run in _runs(_joined(stmt.stmts))
            )
        )
    if isinstance(stmt, For) and _phase(stmt) is None:
        if not uses(stmt.extent, [var for var, _ in threads]):
            inner = (*outside, (stmt.var, stmt.extent))
            return replace(stmt, body=_visit(stmt.body, threads, inner))
        # Its length differs from thread to thread: each runs it whole.
        inner = (*outside, *threads, (stmt.var, stmt.extent))
        stmt = replace(stmt, body=_visit(stmt.body, (), inner))
    return _repeat(stmt, threads)


def _repeat(stmt: Stmt, threads: _Loops) -> Stmt:
    for var, extent in reversed(threads):
        stmt = For(var, extent, stmt, "interleaved")
    return stmt


def _joined(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Move what follows an allocation into it, where nothing more is allocated there.

    A phase that began inside it then goes on: ``alloc a: (load a; gemm a); requantize`` computes
    and requantizes one thread before the other.
    """
    for k, stmt in enumerate(stmts):
        rest = stmts[k + 1 :]
        if not isinstance(stmt, Alloc) or not rest:
            continue
        if any(isinstance(part, Alloc) for later in rest for part in walk_stmts(later)):
            continue
        body = stmt.body.stmts if isinstance(stmt.body, Block) else (stmt.body,)
        return (*stmts[:k], Alloc(stmt.buffer, Block((*body, *rest))))
    return stmts


def _runs(stmts: tuple[Stmt, ...]) -> list[tuple[str | None, list[Stmt]]]:
    """Group neighbouring operations of one phase; other statements stand alone."""
    runs: list[tuple[str | None, list[Stmt]]] = []
    for stmt in stmts:
        phase = _phase(stmt)
        if phase is not None and runs and runs[-1][0] == phase:
            runs[-1][1].append(stmt)
        else:
            runs.append((phase, [stmt]))
    return runs


def _phase(stmt: Stmt) -> str | None:
    """Return ``in``, ``compute`` or ``out`` for a nest that holds one operation, else None."""
    body: Stmt = stmt
    while isinstance(body, For):
        if body.kind == "vthread":
            return None
        body = body.body
    if isinstance(body, Copy):
        return "out" if body.target.buffer.scope == "global" else "in"
    return "compute" if isinstance(body, (Intrinsic, Move, Store)) else None


def _use_copies(stmt: Stmt) -> Stmt:
    """Add each thread's share to the offsets of the buffers that have copies."""
    allocated = {part.buffer for part in walk_stmts(stmt) if isinstance(part, Alloc)}
    return map_accesses(stmt, lambda a: own_copy(a) if a.buffer in allocated else a)
