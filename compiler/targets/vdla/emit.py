"""From loop IR to the instruction stream: walk the outer loops, emit the inner nests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from vdla.compiler.ir.evaluate import Env, Evaluator
from vdla.compiler.ir.linear import affine, uses
from vdla.compiler.ir.stmt import (
    Access,
    Alloc,
    Block,
    Buffer,
    Copy,
    For,
    Intrinsic,
    Move,
    Stmt,
    Store,
)
from vdla.compiler.te.expr import Const, Expr, Var
from vdla.config import Config
from vdla.errors import LoweringError

from .calls import emit_intrinsic, emit_move
from .ops import Op, element_scalars
from .transfers import emit_copy

__all__ = ["Emitter", "Target"]


@dataclass(frozen=True)
class Target:
    """Where everything lies.

    Attributes
    ----------
    config : Config
        The accelerator.
    scratchpads : mapping of Buffer to int
        First entry of every scratchpad buffer.
    memory : mapping of Buffer to int
        Byte offset of every global buffer in the arena.
    constants : collection of Buffer
        Global buffers that no instruction writes.
    """

    config: Config
    scratchpads: Mapping[Buffer, int]
    memory: Mapping[Buffer, int]
    constants: Collection[Buffer]

    def entries(self, access: Access) -> tuple[int, int]:
        """Return a scratchpad buffer's first entry and the scalars of an entry."""
        return self.scratchpads[access.buffer], element_scalars(self.config, access.buffer.scope)


Run = Callable[[], None]


class Emitter:
    """Walks loop IR with concrete values and appends instructions to ``ops``.

    Loops around several operations run here, one instruction after another. The innermost loops
    around one operation whose indices are affine become that instruction's own loops and
    micro-ops.
    """

    def __init__(self, target: Target, layer: int = 0) -> None:
        self._target = target
        self._layer = layer
        self._evaluator = Evaluator()
        self.ops: list[Op] = []

    def emit(self, body: Stmt) -> list[Op]:
        """Return the instructions of a program, in stream order."""
        self._prepare(body)()
        return self.ops

    @property
    def _env(self) -> Env:
        return self._evaluator.env

    def _prepare(self, stmt: Stmt) -> Run:
        if isinstance(stmt, Block):
            runs = [self._prepare(child) for child in stmt.stmts]

            def run_all() -> None:
                for run in runs:
                    run()

            return run_all
        if isinstance(stmt, Alloc):
            return self._prepare(stmt.body)
        if isinstance(stmt, Store):
            raise LoweringError(
                f"{stmt.target.buffer.name} is computed scalar by scalar; on VDLA every stage must "
                "end in a tensorized intrinsic or a copy marked dma_copy."
            )
        if isinstance(stmt, For):
            nest = _leaf_nest(stmt)
            if nest is not None:
                return self._nest(*nest)
            return self._loop(stmt.var, stmt.extent, self._prepare(stmt.body))
        return self._nest((), stmt)

    def _loop(self, var: Var, extent: Expr, body: Run) -> Run:
        slot, count = self._evaluator.slot(var), self._evaluator.compile(extent)
        env = self._env

        def run() -> None:
            for value in range(count(env)):
                env[slot] = value
                body()

        return run

    def _nest(self, loops: tuple[For, ...], leaf: Stmt) -> Run:
        """Return what emits one nest: instruction loops for its affine inner part."""
        accesses = _accesses(leaf)
        split = len(loops)
        inside: set[Var] = set()
        for k in range(len(loops) - 1, -1, -1):
            loop = loops[k]
            rectangular = not any(uses(inner.extent, (loop.var,)) for inner in loops[k + 1 :])
            own = loop.kind not in ("interleaved", "unroll")  # unrolled: an instruction a step
            kept = isinstance(leaf, (Intrinsic, Move)) and own
            together = {loop.var, *inside}
            if not (kept and rectangular and all(affine(a.offset, together) for a in accesses)):
                break
            inside, split = together, k
        run = self._leaf(loops[split:], leaf)
        for loop in reversed(loops[:split]):
            run = self._loop(loop.var, loop.extent, run)
        return run

    def _leaf(self, loops: tuple[For, ...], leaf: Stmt) -> Run:
        compile_, env = self._evaluator.compile, self._env
        target, layer, ops = self._target, self._layer, self.ops
        for loop in loops:
            self._evaluator.slot(loop.var)
        if isinstance(leaf, Copy):
            prepared = emit_copy(leaf, target.config, target, self._evaluator)

            def run_copy() -> None:
                ops.extend(prepared(env, layer))

            return run_copy
        assert isinstance(leaf, (Intrinsic, Move))
        accesses = _accesses(leaf)
        variables = [loop.var for loop in loops]
        extents = [compile_(loop.extent) for loop in loops]
        bases, steps = [], []
        for access in accesses:
            found = affine(access.offset, variables)
            assert found is not None
            first, scalars = target.entries(access)
            bases.append((compile_(found[1]), first, scalars, access))
            steps.append([compile_(found[0].get(var, Const(0))) for var in variables])
        first_vars = leaf.first if isinstance(leaf, Intrinsic) else ()
        outer_first = [self._evaluator.slot(v) for v in first_vars if v not in variables]
        reduce = [var in first_vars for var in variables]

        def run() -> None:
            base = [
                _entry(value(env), scalars, access) + first
                for value, first, scalars, access in bases
            ]
            nest = []
            for k, extent in enumerate(extents):
                moves = [
                    _entry(steps[a][k](env), bases[a][2], bases[a][3]) for a in range(len(bases))
                ]
                nest.append((extent(env), moves, reduce[k]))
            starts = all(env[slot] == 0 for slot in outer_first)
            if any(extent == 0 for extent, _, _ in nest):
                return
            if isinstance(leaf, Move):
                ops.extend(emit_move(base, nest, target.config, layer))
            else:
                ops.extend(emit_intrinsic(leaf, base, nest, starts, target.config, layer))

        return run


def _entry(scalars: int, size: int, access: Access) -> int:
    entry, rest = divmod(scalars, size)
    if rest:
        raise LoweringError(
            f"{access.buffer.name} must be reached at whole entries of {size} scalars, not at "
            f"scalar {scalars}: keep the block's dimensions innermost."
        )
    return entry


def _accesses(leaf: Stmt) -> tuple[Access, ...]:
    if isinstance(leaf, Intrinsic):
        return (leaf.output, *leaf.operands)
    if isinstance(leaf, Move):
        return leaf.output, leaf.operand
    return ()


def _leaf_nest(stmt: For) -> tuple[tuple[For, ...], Stmt] | None:
    loops: list[For] = []
    body: Stmt = stmt
    while isinstance(body, For):
        loops.append(body)
        body = body.body
    if isinstance(body, (Intrinsic, Copy, Move)):
        return tuple(loops), body
    return None
