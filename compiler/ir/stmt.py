"""Statements of the loop IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, TypeAlias

from vdla.compiler.te.expr import Expr, Var
from vdla.compiler.te.intrin import TensorIntrin

__all__ = [
    "Access",
    "Alloc",
    "Block",
    "Buffer",
    "Condition",
    "Copy",
    "For",
    "If",
    "Intrinsic",
    "Move",
    "Stmt",
    "Store",
    "children",
    "map_indices",
    "map_stmt",
    "walk_stmts",
]


@dataclass(frozen=True, eq=False)
class Buffer:
    """Storage of one tensor, or of the part of it that is live at a time.

    Attributes
    ----------
    name, dtype, scope : str
        ``global`` buffers are tensors in memory; others lie in a scratchpad.
    size : int
        Scalars, for the largest tile; one virtual thread's share.
    threads : tuple of (Var, int)
        Virtual threads that each have a private copy, with their counts.
    """

    name: str
    dtype: str
    scope: str
    size: int
    threads: tuple[tuple[Var, int], ...] = ()

    @property
    def total(self) -> int:
        """Scalars of all virtual threads' copies together."""
        return self.size * prod(count for _, count in self.threads)


@dataclass(frozen=True)
class Access:
    """A place in a buffer: ``offset`` counts scalars."""

    buffer: Buffer
    offset: Expr


@dataclass(frozen=True)
class Condition:
    """``low <= value < high``; False fills the copy's element with padding. None is no bound."""

    value: Expr
    low: int | None
    high: int | None

    def holds(self, value: int) -> bool:
        """Tell whether a value of the expression meets the condition."""
        return (self.low is None or self.low <= value) and (self.high is None or value < self.high)


@dataclass(frozen=True)
class For:
    """``for var in 0 .. extent - 1``; kind is serial, vthread, interleaved or an annotation."""

    var: Var
    extent: Expr
    body: Stmt
    kind: str = "serial"


@dataclass(frozen=True)
class If:
    """``if condition: then, else: other``, decided by loop variables."""

    condition: Expr
    then: Stmt
    other: Stmt


@dataclass(frozen=True)
class Block:
    """Statements in order."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True)
class Alloc:
    """A buffer that lives while the body runs."""

    buffer: Buffer
    body: Stmt


@dataclass(frozen=True)
class Store:
    """``target = value``, one scalar; ``value`` reads buffers through ``loads``.

    The offset of a load may call earlier loads: an index that is data.
    """

    target: Access
    value: Expr
    loads: tuple[Access, ...]


@dataclass(frozen=True)
class Intrinsic:
    """One execution of a hardware intrinsic.

    Attributes
    ----------
    intrin : TensorIntrin
        What is executed.
    output : Access
        First scalar of the result tile.
    operands : tuple of Access
        First scalars of the operand tiles, in the intrinsic's order.
    scalars : tuple of int
        Constants matched by the intrinsic's scalars, then static attributes of its calls.
    first : tuple of Var
        Loops of a reduction; where all are 0 the result starts anew. Empty: no reduction.
    start : float or None
        Value that a reduction starts from.
    strides : tuple of tuple of int
        Of the result tile and of each operand's: scalars between neighbours along each of its
        dimensions. Empty where tiles lie in one piece.
    """

    intrin: TensorIntrin
    output: Access
    operands: tuple[Access, ...]
    scalars: tuple[int, ...] = ()
    first: tuple[Var, ...] = ()
    start: float | None = None
    strides: tuple[tuple[int, ...], ...] = ()

    @property
    def tiles(self) -> tuple[tuple[Access, tuple[int, ...], tuple[int, ...]], ...]:
        """The result tile and each operand's: first scalar, shape, and strides."""
        shapes = (self.intrin.declaration.shape, *(t.shape for t in self.intrin.operands))
        strides = self.strides or tuple(map(_packed, shapes))
        return tuple(zip((self.output, *self.operands), shapes, strides, strict=True))


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


@dataclass(frozen=True)
class Move:
    """Copy ``size`` scalars in a scope, for an intrinsic that must not destroy its operand."""

    output: Access
    operand: Access
    size: int


@dataclass(frozen=True)
class Copy:
    """Copy a box between memory and a scratchpad, with padding where a condition fails."""

    target: Access
    source: Access
    loops: tuple[tuple[Var, Expr], ...]
    conditions: tuple[Condition, ...] = ()
    pad_value: int = 0


Stmt: TypeAlias = For | If | Block | Alloc | Store | Intrinsic | Move | Copy


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the statements directly inside one."""
    if isinstance(stmt, (For, Alloc)):
        return (stmt.body,)
    if isinstance(stmt, If):
        return (stmt.then, stmt.other)
    return stmt.stmts if isinstance(stmt, Block) else ()


def walk_stmts(stmt: Stmt) -> Iterator[Stmt]:
    """Yield a statement and all inside it, outermost first."""
    yield stmt
    for child in children(stmt):
        yield from walk_stmts(child)


def map_stmt(stmt: Stmt, visit: Callable[[Stmt], Stmt | None]) -> Stmt:
    """Rebuild a statement; what ``visit`` returns for one replaces it, None goes inside."""
    replaced = visit(stmt)
    if replaced is not None:
        return replaced
    if isinstance(stmt, (For, Alloc)):
        return replace(stmt, body=map_stmt(stmt.body, visit))
    if isinstance(stmt, If):
        return If(stmt.condition, map_stmt(stmt.then, visit), map_stmt(stmt.other, visit))
    if isinstance(stmt, Block):
        return Block(tuple(map_stmt(child, visit) for child in stmt.stmts))
    return stmt


def map_indices(stmt: Stmt, index: Callable[[Expr], Expr], value: Callable[[Expr], Expr]) -> Stmt:
    """Rebuild a statement that holds no other: its offsets and conditions, and what it stores."""
    changed: dict[str, Any] = {}
    for one in fields(stmt):
        held = getattr(stmt, one.name)
        if isinstance(held, Access):
            changed[one.name] = Access(held.buffer, index(held.offset))
        elif isinstance(held, tuple) and held and isinstance(held[0], Access):
            changed[one.name] = tuple(Access(a.buffer, index(a.offset)) for a in held)
        elif isinstance(held, tuple) and held and isinstance(held[0], Condition):
            changed[one.name] = tuple(replace(c, value=index(c.value)) for c in held)
        elif isinstance(held, Expr):
            changed[one.name] = value(held)
    return replace(stmt, **changed)
