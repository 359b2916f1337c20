"""From loops bound to threads to what one thread runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.ir.linear import const_bounds, simplify, uses
from vdla.compiler.ir.stmt import (
    Access,
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Intrinsic,
    Stmt,
    Store,
    map_indices,
    walk_stmts,
)
from vdla.compiler.lower.regions import SHARED
from vdla.compiler.te.axes import BLOCK_AXES, THREAD_AXES
from vdla.compiler.te.expr import Const, Expr, Real, Var
from vdla.compiler.te.traverse import substitute
from vdla.errors import LoweringError

from .axes import VARIABLES
from .bounds import lies_inside
from .conditions import below, facts_of, needed, settle
from .kernel import THREAD, Guard, Loop, Matrix, Statement, joined
from .matrices import LANES, MATRIX_SCOPES, SIDE, aligned_bytes
from .vectors import in_vectors
from .virtual import Virtual, each, sums_up, with_copies, within_registers

__all__ = ["REGISTER", "Threads"]

REGISTER = "register"
"""Scope of arrays that each thread has of its own."""
VIRTUAL = "vthread"
"""What loops of virtual threads are bound to."""

_Loops = tuple[tuple[Var, Expr], ...]


@dataclass(frozen=True)
class _Place:
    """What surrounds a statement.

    Attributes
    ----------
    values : mapping of Var to Expr
        Bound loop variables, as a thread's own.
    bound : mapping of str to Var
        Axes that loops around it are bound to, and those loops' variables.
    conditions : tuple of Expr
        What must hold for the statement to run, and is not tested yet.
    tested : tuple of Expr
        What holds because it has been tested.
    loops : tuple of (Var, Expr)
        Where the thread stands and its loops.
    filling : bool
        Whether all threads fill shared memory together.
    virtual : tuple of (Var, int)
        Virtual threads that the statement has yet to be run for.
    """

    values: Mapping[Var, Expr]
    bound: Mapping[str, Var]
    conditions: tuple[Expr, ...]
    loops: _Loops
    tested: tuple[Expr, ...] = ()
    filling: bool = False
    virtual: Virtual = ()


class Threads:
    """Turns loops into the statements of one thread.

    Before::

        for i in 3 (blockIdx.x):
          for j in min(8, 20 - 8 * i) (threadIdx.x):
            alloc t in shared
            for l in 8 (threadIdx.x): t[l] = select(8 * i + l < 20, a[8 * i + l], 0)
            b[8 * i + j] = t[j]

    After, for 3 blocks of 8 threads::

        t[thread_x] = select(8 * block_x + thread_x < 20, a[8 * block_x + thread_x], 0)
        if 8 * block_x + thread_x < 20: b[8 * block_x + thread_x] = t[thread_x]

    In the loop IR every iteration of j fills t anew; as all of them write the same, and at the same
    time, the threads that run them do it once. Conditions are tested around the largest statements
    in which no shared memory is filled, so that all threads reach every barrier. A loop to be
    unrolled takes its greatest number of steps, each with a condition, so that an array that it
    runs through can lie in registers; one to be vectors is unrolled where its elements are not
    known to be whole vectors.

    Virtual threads share what the threads of a block share, and have their own copies of what lies
    in registers. Before::

        for v in 2 (vthread):
          for t in 8 (threadIdx.x):
            alloc sums (4) in register
            for k in 16:
              alloc b in shared
              for l in 8 (threadIdx.x): b[...] = ...                     # of both
              for j in 4: sums[j] += a[k] * b[32 * v + 4 * t + j]
            for j in 4: c[32 * v + 4 * t + j] = sums[j]

    After, v unrolled::

        for k in 16:
          b[...] = ...
          for v in 2: for j in 4: sums[4 * v + j] += a[k] * b[32 * v + 4 * thread_x + j]
        for v in 2: for j in 4: c[32 * v + 4 * thread_x + j] = sums[4 * v + j]

    Their loops are not interleaved as an accelerator's are, whose stream alternates between loading
    for one and computing for another: here warps take turns by themselves, and what counts is that
    the virtual threads of a thread stand together, where they use the same elements. So their loop
    is put inside those of a reduction, outside those over a thread's own elements, and never around
    a barrier.

    Attributes
    ----------
    shared, registers : list of Buffer
        Arrays met on the way.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self.shared: list[Buffer] = []
        self.registers: list[Buffer] = []

    def of(self, body: Stmt) -> Statement:
        """Return a program as one thread runs it.

        Raises
        ------
        LoweringError
            A statement is none of a thread's, loops are bound so that threads would run it wrongly,
            or a buffer lies where no thread has memory.
        """
        places = tuple((VARIABLES[axis], Const(size)) for axis, size in self._sizes.items())
        return self._visit(body, _Place({}, {}, (), places))

    def _visit(self, stmt: Stmt, at: _Place) -> Statement:
        if isinstance(stmt, Alloc):
            if stmt.buffer.scope != SHARED:
                stmt = with_copies(stmt, at.virtual)
            self._allocate(stmt.buffer)
            return self._visit(stmt.body, at)
        if isinstance(stmt, Intrinsic) and _by_warp(stmt):
            return self._matrix(stmt, at)
        written = {access.buffer.scope for part in walk_stmts(stmt) for access in _written(part)}
        by_warps = any(isinstance(part, Intrinsic) and _by_warp(part) for part in walk_stmts(stmt))
        if written and written <= set(MATRIX_SCOPES) and not by_warps:
            return self._filled(stmt)
        again = isinstance(stmt, For) and stmt.kind in THREAD_AXES and stmt.kind in at.bound
        shared = written == {SHARED} or (again and written == {SHARED, REGISTER})
        if shared and not by_warps and not at.filling:
            return self._fill(stmt, at)
        if SHARED not in written and not _binds(stmt):
            if at.virtual:
                return self._for_each(stmt, at)
            if at.conditions:
                return _guarded(at, self._visit(stmt, _passed(at)))
        if isinstance(stmt, Block):
            return joined(*(self._visit(child, at) for child in stmt.stmts))
        if isinstance(stmt, For):
            return self._loop(stmt, at)
        if isinstance(stmt, Store):
            return self._store(stmt, at)
        if isinstance(stmt, Intrinsic):
            return self._moved(stmt, at)
        raise LoweringError(
            f"A GPU has no {type(stmt).__name__.lower()} in its kernels yet: leave out the "
            "primitive that asks for it."
        )

    def _allocate(self, buffer: Buffer) -> None:
        lists = {
            SHARED: self.shared,
            **dict.fromkeys((REGISTER, *MATRIX_SCOPES), self.registers),
        }
        if buffer.scope not in lists:
            raise LoweringError(
                f"What a kernel keeps for itself must lie in {SHARED} or {REGISTER}, and "
                f"{buffer.name} lies in {buffer.scope}: use set_scope, or compute_inline."
            )
        lists[buffer.scope].append(buffer)

    def _for_each(self, stmt: Stmt, at: _Place) -> Statement:
        """Return what virtual threads do, each for itself, once for each of them."""
        variables = [var for var, _ in at.virtual]
        own = tuple(c for c in at.conditions if uses(c, variables))
        if own != at.conditions:
            common = replace(at, conditions=tuple(c for c in at.conditions if c not in own))
            inner = replace(_passed(common), conditions=own)
            return _guarded(common, self._for_each(stmt, inner))
        if isinstance(stmt, Block):
            return joined(*(self._visit(child, at) for child in stmt.stmts))
        if isinstance(stmt, For) and stmt.kind == VIRTUAL:
            return self._loop(stmt, at)
        if own and within_registers(stmt, REGISTER):
            # What is summed up past the end, where that can be read, is stored by nobody.
            made = self._for_each(stmt, replace(at, conditions=()))
            if lies_inside(made, at.loops, at.tested):
                return made
        if not own and isinstance(stmt, For) and sums_up(stmt, at.virtual):
            return self._loop(stmt, at)
        return each(at.virtual, self._visit(stmt, replace(at, virtual=())))

    def _fill(self, stmt: Stmt, at: _Place) -> Statement:
        """Return what all threads of a block do, whichever loops of threads are around it."""
        around = [var for axis, var in at.bound.items() if axis in THREAD_AXES]
        around += [var for var, _ in at.virtual]
        if any(uses(expr, around) for part in walk_stmts(stmt) for expr in _expressions(part)):
            name = next(s.target.buffer.name for s in walk_stmts(stmt) if isinstance(s, Store))
            raise LoweringError(
                f"What threads share must not differ between them, but {name} depends on "
                f"{', '.join(var.name for var in around)}: compute it outside those loops, or set "
                "its scope before it is computed in them."
            )
        blocks = {axis: var for axis, var in at.bound.items() if axis in BLOCK_AXES}
        conditions, tested = (
            tuple(c for c in every if not uses(c, (*THREAD, *around)))
            for every in (at.conditions, at.tested)
        )
        inside = _Place(at.values, blocks, conditions, at.loops, tested, filling=True)
        return self._visit(stmt, inside)

    def _loop(self, stmt: For, at: _Place) -> Statement:
        extent = simplify(substitute(stmt.extent, at.values))
        if stmt.kind == VIRTUAL:
            return self._virtual(stmt, extent, at)
        if stmt.kind not in VARIABLES:
            if stmt.kind not in ("serial", "unroll", "vectorize"):
                raise LoweringError(
                    f"A loop of a GPU's thread is serial, unrolled or of vectors, and "
                    f"{stmt.var.name} is {stmt.kind}: leave that out, or bind the loop to an axis "
                    "of threads."
                )
            conditions = at.conditions
            if stmt.kind != "serial" and not isinstance(extent, Const):
                conditions = (*conditions, *below(stmt.var, extent))
                extent = Const(const_bounds(extent, at.loops)[1])
            inner = replace(at, loops=(*at.loops, (stmt.var, extent)), conditions=conditions)
            loop = Loop(stmt.var, extent, self._visit(stmt.body, inner), stmt.kind != "serial")
            return in_vectors(loop) if stmt.kind == "vectorize" else loop
        if stmt.kind in at.bound:
            raise LoweringError(
                f"Loops around one statement must be bound to different axes; "
                f"{at.bound[stmt.kind].name} and {stmt.var.name} are both bound to {stmt.kind}: "
                "fuse them, or bind one to another axis."
            )
        own: Expr = VARIABLES[stmt.kind] if self._sizes[stmt.kind] > 1 else Const(0)
        conditions = (*at.conditions, *below(own, extent))
        return self._visit(
            stmt.body,
            replace(
                at,
                values={**at.values, stmt.var: own},
                bound={**at.bound, stmt.kind: stmt.var},
                conditions=needed(conditions, at.loops),
            ),
        )

    def _virtual(self, stmt: For, extent: Expr, at: _Place) -> Statement:
        """Return what virtual threads do, as many of them as there are anywhere."""
        warps = [p for p in walk_stmts(stmt) if isinstance(p, Intrinsic) and _by_warp(p)]
        if warps:
            raise LoweringError(
                f"Virtual threads share out what a thread computes by itself, and "
                f"{warps[0].intrin.name} is for a warp: leave {stmt.var.name} unbound."
            )
        most = const_bounds(extent, at.loops)[1]
        loops = (*at.loops, (stmt.var, Const(most)))
        conditions = needed((*at.conditions, *below(stmt.var, extent)), loops)
        virtual = (*at.virtual, (stmt.var, most))
        inner = replace(at, loops=loops, conditions=conditions, virtual=virtual)
        return self._visit(stmt.body, inner)

    def _filled(self, stmt: Stmt) -> Statement:
        """Return what a warp's sums start from, stored to all of its tiles at once."""
        elements = 1
        while isinstance(stmt, For):
            elements *= stmt.extent.value if isinstance(stmt.extent, Const) else 0
            stmt = stmt.body
        whole = (
            isinstance(stmt, Store)
            and stmt.value in (Real(0.0), Const(0))
            and elements == stmt.target.buffer.total
        )
        if not isinstance(stmt, Store) or not whole:
            raise LoweringError(
                "Matrices that a warp holds must start from 0, all at once: let the loops that sum "
                "up be outside all others of their stage."
            )
        tile, buffer = Var("tile"), stmt.target.buffer
        fill = Matrix(f"matrix_fill_{buffer.dtype}", Access(buffer, tile))
        return Loop(tile, Const(buffer.total // SIDE**2), fill, unroll=True)

    def _matrix(self, stmt: Intrinsic, at: _Place) -> Statement:
        """Return an intrinsic, for which all threads of a warp must come together."""
        name = stmt.intrin.name
        if self._sizes["threadIdx.x"] != LANES or "threadIdx.x" in at.bound:
            raise LoweringError(
                f"{name} is for warps of {LANES} threads: threadIdx.x must have {LANES}, and no "
                f"loop around it may be bound to that, but there are {self._sizes['threadIdx.x']}"
                f"{'; one is' if 'threadIdx.x' in at.bound else ''}."
            )
        accesses, step = [], 0
        for access, _, (row, column) in stmt.tiles:
            offset = simplify(self._settled(access.offset, at))
            if access.buffer.scope in MATRIX_SCOPES:
                number = offset // (SIDE * row) * (row // SIDE) + offset % row // SIDE
                offset = simplify(self._settled(simplify(number), at))
            elif access.buffer.scope == SHARED:
                _check_rows(access.buffer, row, column)
                step = row
            accesses.append(Access(access.buffer, offset))
        output, *operands = accesses
        return _guarded(at, Matrix(name, output, tuple(operands), step))

    def _settled(self, expr: Expr, at: _Place) -> Expr:
        facts = [d for c in (*at.tested, *at.conditions) for d in facts_of(c)]
        return settle(substitute(expr, at.values), at.loops, facts)

    def _store(self, stmt: Store, at: _Place) -> Statement:
        shared = stmt.target.buffer.scope != REGISTER
        axes = THREAD_AXES if stmt.target.buffer.scope == SHARED else VARIABLES
        missing = [a for a in axes if self._sizes[a] > 1 and a not in at.bound]
        if shared and missing:
            raise LoweringError(
                f"An element of {stmt.target.buffer.name} must be written by one thread, but no "
                f"loop around it is bound to {', '.join(missing)}, along which there are "
                f"{', '.join(str(self._sizes[a]) for a in missing)}: bind one of its loops to that."
            )
        return self._moved(stmt, at)

    def _moved(self, stmt: Intrinsic | Store, at: _Place) -> Statement:
        """Return a statement with its indices as a thread's own."""

        def settled(expr: Expr) -> Expr:
            return self._settled(expr, at)

        moved = map_indices(stmt, lambda e: simplify(settled(e)), settled)
        assert isinstance(moved, (Intrinsic, Store))
        return _guarded(at, moved)


def _passed(at: _Place) -> _Place:
    """Return a place behind the test of its conditions."""
    return replace(at, conditions=(), tested=(*at.tested, *at.conditions))


def _guarded(at: _Place, stmt: Statement) -> Statement:
    conditions = needed(at.conditions, at.loops, at.tested)
    return Guard(conditions, stmt) if conditions else stmt


def _written(stmt: Stmt) -> tuple[Access, ...]:
    """Return what a statement itself writes."""
    if isinstance(stmt, Store):
        return (stmt.target,)
    return (stmt.output,) if isinstance(stmt, Intrinsic) else ()


def _by_warp(stmt: Intrinsic) -> bool:
    """Tell whether an intrinsic is for the threads of a warp together."""
    return any(access.buffer.scope in MATRIX_SCOPES for access in (stmt.output, *stmt.operands))


def _check_rows(buffer: Buffer, row: int, column: int) -> None:
    bytes_apart, aligned = row * np.dtype(buffer.dtype).itemsize, aligned_bytes(buffer.dtype)
    if column != 1 or bytes_apart % aligned:
        raise LoweringError(
            f"Rows of a tile in shared memory must begin a multiple of {aligned} bytes apart, "
            f"their elements side by side, and those of {buffer.name} begin {bytes_apart} apart, "
            f"elements {column}: use storage_align."
        )


def _binds(stmt: Stmt) -> bool:
    """Tell whether loops inside a statement are bound."""
    return any(isinstance(part, For) and part.kind in VARIABLES for part in walk_stmts(stmt))


def _expressions(stmt: Stmt) -> list[Expr]:
    if isinstance(stmt, For):
        return [stmt.extent]
    if isinstance(stmt, If):
        return [stmt.condition]
    if isinstance(stmt, Store):
        return [stmt.target.offset, stmt.value, *(load.offset for load in stmt.loads)]
    return []
