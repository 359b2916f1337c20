"""What loop IR may contain, checked after every stage of lowering."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.te.expr import Call, Expr, Select, Var
from vdla.compiler.te.traverse import parts_of, walk
from vdla.errors import LoweringError

from .evaluate import exact_bounds
from .linear import const_bounds, is_data, variables
from .printer import expr_text
from .stmt import Access, Alloc, Block, Buffer, Copy, For, If, Intrinsic, Move, Stmt, Store

__all__ = ["verify"]

_Loops = tuple[tuple[Var, Expr], ...]


def verify(body: Stmt, stage: str, *, threads: bool = True) -> None:
    """Check scoping and bounds.

    Every variable is bound by an enclosing loop, once; every scratchpad buffer is allocated
    around its uses; every tile lies inside its buffer; no virtual thread is left where
    ``threads`` is False. Bounds that interval arithmetic leaves open are counted out where that
    takes few steps.

    Raises
    ------
    LoweringError
        Names the stage of lowering after which a rule does not hold.
    """
    _check(body, (), frozenset(), stage, threads)


def _check(
    stmt: Stmt, loops: _Loops, buffers: frozenset[Buffer], stage: str, threads: bool
) -> None:
    if isinstance(stmt, Block):
        for child in stmt.stmts:
            _check(child, loops, buffers, stage, threads)
    elif isinstance(stmt, For):
        if any(stmt.var is var for var, _ in loops):
            raise LoweringError(f"After {stage}, loop {stmt.var.name} is bound twice.")
        if stmt.kind == "vthread" and not threads:
            raise LoweringError(f"After {stage}, virtual thread {stmt.var.name} is left.")
        _bound(stmt.extent, loops, stage)
        inner = (*loops, (stmt.var, stmt.extent))
        _check(stmt.body, inner, buffers, stage, threads)
    elif isinstance(stmt, If):
        _bound(stmt.condition, loops, stage)
        _check(stmt.then, loops, buffers, stage, threads)
        _check(stmt.other, loops, buffers, stage, threads)
    elif isinstance(stmt, Alloc):
        if stmt.buffer in buffers:
            raise LoweringError(f"After {stage}, {stmt.buffer.name} is allocated twice.")
        _check(stmt.body, loops, buffers | {stmt.buffer}, stage, threads)
    else:
        for access, size, inner in _accesses(stmt, loops):
            _access(access, size, inner, buffers, stage)


def _accesses(stmt: Stmt, loops: _Loops) -> list[tuple[Access, int, _Loops]]:
    """Return the accesses whose bounds count, the scalars of each, and the loops around it."""
    if isinstance(stmt, Intrinsic):
        return [
            (access, 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)), loops)
            for access, shape, steps in stmt.tiles
        ]
    if isinstance(stmt, Move):
        return [(access, stmt.size, loops) for access in (stmt.output, stmt.operand)]
    if isinstance(stmt, Store):
        guarded = _guarded(stmt.value, stmt.loads)
        loads = [load for k, load in enumerate(stmt.loads) if k not in guarded]
        return [(access, 1, loops) for access in (stmt.target, *loads)]
    assert isinstance(stmt, Copy)
    # A padded source reaches outside its buffer where the condition fails.
    inner = (*loops, *stmt.loops)
    sides = [stmt.target] if stmt.conditions else [stmt.target, stmt.source]
    return [(access, 1, inner) for access in sides]


def _guarded(value: Expr, loads: Sequence[Access]) -> set[int]:
    """Return the loads that a select keeps from reaching outside, with those of their offsets."""
    found: list[int] = []
    left = [(value, False)]
    while left:
        part, guarded = left.pop()
        if guarded and isinstance(part, Call) and part.name == "load":
            found.append(dict(part.attrs)["position"])
        if isinstance(part, Select):
            left += [(part.condition, guarded), (part.then, True), (part.other, True)]
        else:
            left += [(inner, guarded) for inner in parts_of(part)]
    for position in found:
        found.extend(_called(loads[position].offset))
    return set(found)


def _called(expr: Expr) -> list[int]:
    return [
        dict(part.attrs)["position"]
        for part in walk(expr)
        if isinstance(part, Call) and part.name == "load"
    ]


def _bound(expr: Expr, loops: _Loops, stage: str) -> None:
    free = variables(expr).difference(var for var, _ in loops)
    if free:
        name = min(var.name for var in free)
        raise LoweringError(f"After {stage}, {name} is used outside its loop.")


def _access(
    access: Access, size: int, loops: _Loops, buffers: frozenset[Buffer], stage: str
) -> None:
    buffer = access.buffer
    _bound(access.offset, loops, stage)
    if buffer.scope != "global" and buffer not in buffers:
        raise LoweringError(f"After {stage}, {buffer.name} is used outside its allocation.")
    room = buffer.total - size
    low, high = const_bounds(access.offset, loops)
    if (low < 0 or high > room) and not is_data(access.offset):
        low, high = exact_bounds(access.offset, loops) or (0, 0)
    if low < 0 or high > room:
        raise LoweringError(
            f"After {stage}, {buffer.name}[{expr_text(access.offset)}] reaches "
            f"{low}..{high + size - 1}, outside 0..{buffer.total - 1}."
        )
