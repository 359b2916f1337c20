"""Kernels: what each thread of a grid runs, below the loop IR and above any language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from vdla.compiler.ir.stmt import Access, Buffer, Intrinsic, Store
from vdla.compiler.te.expr import Const, Expr, Var

__all__ = [
    "BLOCK",
    "THREAD",
    "Barrier",
    "Guard",
    "Kernel",
    "Loop",
    "Matrix",
    "Parameter",
    "Sequence",
    "Statement",
    "accesses",
    "joined",
    "walk",
]

BLOCK = (Var("block_x"), Var("block_y"), Var("block_z"))
"""Which block of the grid a thread belongs to."""
THREAD = (Var("thread_x"), Var("thread_y"), Var("thread_z"))
"""Which thread of its block it is."""


@dataclass(frozen=True)
class Barrier:
    """All threads of a block arrive before one goes on, and see what the others wrote."""


@dataclass(frozen=True)
class Guard:
    """A statement for the threads of which all conditions hold."""

    conditions: tuple[Expr, ...]
    body: Statement


@dataclass(frozen=True)
class Loop:
    """``for var in 0 .. extent - 1``, in each thread.

    Attributes
    ----------
    var : Var
    extent : Expr
    body : Statement
    unroll : bool
        Whether to write the body as often as it runs.
    vector : bool
        Whether the iterations are lanes of a vector: the body is a store, then, and the extent 2
        or 4.
    """

    var: Var
    extent: Expr
    body: Statement
    unroll: bool = False
    vector: bool = False


@dataclass(frozen=True)
class Sequence:
    """Statements in order."""

    stmts: tuple[Statement, ...]


@dataclass(frozen=True)
class Matrix:
    """What the threads of a warp do at once with tiles of matrices that they hold together.

    Attributes
    ----------
    function : str
        Its name, of `matrices.FUNCTIONS`.
    output : Access
    operands : tuple of Access
        Of what a warp holds the offset counts tiles; elsewhere it is that of a tile's first
        element.
    step : int
        Elements between the rows of a tile that lies in shared memory; 0 where none does.
    """

    function: str
    output: Access
    operands: tuple[Access, ...] = ()
    step: int = 0


Statement: TypeAlias = Barrier | Guard | Intrinsic | Loop | Matrix | Sequence | Store


@dataclass(frozen=True)
class Parameter:
    """An array in memory that a kernel takes.

    Attributes
    ----------
    buffer : Buffer
    shape : tuple of int
        In elements; rows lie one after the other.
    written : bool
        Whether the kernel writes it, every element, and does not read it.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    written: bool


@dataclass(frozen=True)
class Kernel:
    """What each thread of a grid of blocks runs.

    Attributes
    ----------
    name : str
    parameters : tuple of Parameter
        In the order of the caller.
    grid, block : tuple of int
        Blocks of the grid, and threads of a block, along x, y and z.
    shared, registers : tuple of Buffer
        Arrays of a block, and arrays of each thread.
    body : Statement
        Over `BLOCK`, `THREAD` and the variables of its loops.
    """

    name: str
    parameters: tuple[Parameter, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: tuple[Buffer, ...]
    registers: tuple[Buffer, ...]
    body: Statement

    @property
    def places(self) -> tuple[tuple[Var, Expr], ...]:
        """Where a thread may stand: the variables of grid and block, and their extents."""
        pairs = zip((*BLOCK, *THREAD), (*self.grid, *self.block), strict=True)
        return tuple((var, Const(extent)) for var, extent in pairs)


def joined(*stmts: Statement) -> Statement:
    """Return statements in order as one, those of sequences among them side by side."""
    flat: list[Statement] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Sequence) else (stmt,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def walk(stmt: Statement) -> Iterator[Statement]:
    """Yield a statement and all inside it, outermost first."""
    yield stmt
    inner = stmt.stmts if isinstance(stmt, Sequence) else ()
    if isinstance(stmt, (Guard, Loop)):
        inner = (stmt.body,)
    for child in inner:
        yield from walk(child)


def accesses(stmt: Statement, scope: str) -> tuple[frozenset[Buffer], frozenset[Buffer]]:
    """Return the buffers of a scope that a statement reads, and those it writes.

    What a reduction updates counts as written: an element is updated by one thread alone.
    """
    every = [one for one in walk(stmt) if isinstance(one, (Intrinsic, Matrix, Store))]
    loads = [one.loads if isinstance(one, Store) else one.operands for one in every]
    read = {load.buffer for own in loads for load in own}
    written = {(s.target if isinstance(s, Store) else s.output).buffer for s in every}
    return (
        frozenset(buffer for buffer in read if buffer.scope == scope),
        frozenset(buffer for buffer in written if buffer.scope == scope),
    )
