"""From a schedule to loops: every stage becomes a nest inside the loop where it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from vdla.compiler.ir.linear import simplify
from vdla.compiler.ir.stmt import Access, Alloc, Block, Buffer, For, Intrinsic, Move, Stmt, Store
from vdla.compiler.te.axes import THREAD_AXES
from vdla.compiler.te.expr import Const, Real, Reduce, Var
from vdla.compiler.te.intrin import TensorIntrin
from vdla.compiler.te.ranges import value_range
from vdla.compiler.te.schedule import Schedule
from vdla.compiler.te.stage import Stage
from vdla.compiler.te.tensor import IterVar, Tensor
from vdla.errors import LoweringError

from .leaves import DMA_PRAGMA, copy_of, element_of, load_all, within
from .regions import infer_regions, inline_stages
from .storage import Storage
from .terms import check_terms

__all__ = ["DMA_PRAGMA", "Nest", "build_nests"]


@dataclass
class Nest:
    """Loops of a whole schedule.

    Attributes
    ----------
    body : Stmt
        The program.
    arguments : dict of Tensor to Buffer
        Tensors in memory: inputs and outputs.
    """

    body: Stmt
    arguments: dict[Tensor, Buffer]


class _Builder:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._stages, self._regions = storage.stages, storage.regions
        self._hosts = {s.attach.axis for s in storage.stages if s.attach is not None}
        self.built: set[Stage] = set()

    def attached(self, stage: Stage | None, axis: IterVar | None, inner: Stmt) -> Stmt:
        """Put the stages computed at one loop in front of what follows there."""
        here = [
            s
            for s in self._stages
            if (s.attach is None and stage is None)
            or (s.attach is not None and s.attach.stage is stage and s.attach.axis is axis)
        ]
        nests = [self.nest(s) for s in here]
        body = _block(*nests, inner)
        made = [
            self._storage.buffers[s.tensor] for s in here if s.tensor not in self._storage.outputs
        ]
        for buffer in reversed(list(dict.fromkeys(made))):
            body = Alloc(buffer, body)
        return body

    def nest(self, stage: Stage) -> Stmt:
        """Return the loops of one stage."""
        self.built.add(stage)
        for k, leaf in enumerate(stage.leaves):
            if leaf in stage.intrinsics:
                return self._intrinsic_nest(stage, stage.leaves[:k], stage.intrinsics[leaf])
            if DMA_PRAGMA in stage.annotations.get(leaf, {}):
                copy = copy_of(stage, self._storage, stage.leaves[k:])
                return self._loops(stage, stage.leaves[:k], copy)
        return self._scalar_nest(stage)

    def _loops(self, stage: Stage, leaves: list[IterVar], inner: Stmt) -> Stmt:
        """Wrap a statement in a stage's loops; those of one iteration vanish.

        Not loops of threads: of a block that has others, one alone runs what is inside.
        """
        region = self._regions[stage]
        body = inner
        for leaf in reversed(leaves):
            if leaf in self._hosts:
                body = self.attached(stage, leaf, body)
            extent = region.loop_extents[leaf]
            if extent != Const(1) or stage.bound(leaf) in THREAD_AXES:
                body = For(leaf.var, extent, body, _kind(stage, leaf))
        return body

    def _intrinsic_nest(self, stage: Stage, outer: list[IterVar], intrin: TensorIntrin) -> Stmt:
        found, storage = self._storage.matches[stage], self._storage
        output = storage.access(stage.tensor, found.output)
        first: tuple[Var, ...] = ()
        start = None
        if isinstance(stage.body, Reduce):
            extents = self._regions[stage].loop_extents
            first = tuple(
                leaf.var for leaf in outer if leaf.kind == "reduce" and extents[leaf] != Const(1)
            )
            start = _start(stage.body).value if stage.body.start is None else None
        operands = tuple(
            output if read is None or k == intrin.in_place else storage.access(*read)
            for k, read in enumerate(found.operands)
        )
        _check_scopes(stage, intrin.scopes, (output, *operands), intrin.name)
        strides = self._tile_strides(stage, intrin)
        if not intrin.clears and isinstance(stage.body, Reduce):
            call = Intrinsic(intrin, output, operands, found.scalars, strides=strides)
            return self._after_start(stage, stage.body, outer, call)
        call = Intrinsic(intrin, output, operands, found.scalars, first, start, strides)
        if stage not in storage.moved:
            return self._loops(stage, outer, call)
        if found.start is not None:
            move = Move(output, storage.access(*found.start), prod(intrin.declaration.shape))
            return self._continued(stage, outer, move, call)
        assert intrin.in_place is not None
        source = found.operands[intrin.in_place]
        assert source is not None
        move = Move(output, storage.access(*source), prod(intrin.declaration.shape))
        # What is computed in the stage's own loops must come before it is moved.
        shared = max((k + 1 for k, leaf in enumerate(outer) if leaf in self._hosts), default=0)
        both = _block(
            self._loops(stage, outer[shared:], move), self._loops(stage, outer[shared:], call)
        )
        return self._loops(stage, outer[:shared], both)

    def _continued(self, stage: Stage, outer: list[IterVar], move: Move, call: Intrinsic) -> Stmt:
        """Return a reduction that goes on from a tensor which others need as it is."""
        if any(leaf in self._hosts for leaf in outer):
            raise LoweringError(
                f"{stage.name} goes on from sums that others read too, or that are computed at "
                "another loop; nothing can then be computed in its loops: attach what is further "
                "out."
            )
        data = [leaf for leaf in outer if leaf.kind == "data"]
        return _block(self._loops(stage, data, move), self._loops(stage, outer, call))

    def _tile_strides(self, stage: Stage, intrin: TensorIntrin) -> tuple[tuple[int, ...], ...]:
        """Return the strides of an intrinsic's tiles; nothing where they lie in one piece.

        Raises
        ------
        LoweringError
            The rows of a tile do not follow each other in its buffer, and the intrinsic takes no
            others; or they are not a constant step apart.
        """
        found = self._storage.matches[stage]
        tensors = [stage.tensor, *(read[0] if read else None for read in found.operands)]
        shapes = [intrin.declaration.shape, *(tensor.shape for tensor in intrin.operands)]
        if intrin.strided:
            return tuple(
                self._constant_strides(stage, tensor or stage.tensor, len(shape))
                for tensor, shape in zip(tensors, shapes, strict=True)
            )
        for tensor, shape in zip(tensors, shapes, strict=True):
            strides = self._storage.strides[tensor][-len(shape) :] if tensor else ()
            step = 1
            for extent, stride in zip(reversed(shape), reversed(strides), strict=False):
                if extent > 1 and simplify(stride) != Const(step):
                    raise LoweringError(
                        f"A tile of intrinsic {intrin.name} must lie in one piece, but the rows of "
                        f"{list(shape)} elements of {tensor.name if tensor else ''} in stage "
                        f"{stage.name} do not follow each other: give the tensor's last dimensions "
                        "the tile's shape."
                    )
                step *= extent
        return ()

    def _constant_strides(self, stage: Stage, tensor: Tensor, count: int) -> tuple[int, ...]:
        found = [simplify(stride) for stride in self._storage.strides[tensor][-count:]]
        if any(not isinstance(stride, Const) for stride in found):
            raise LoweringError(
                f"Rows of a tile must lie a constant step apart, but those of {tensor.name} in "
                f"stage {stage.name} do not: make whole tiles of it."
            )
        return tuple(stride.value for stride in found if isinstance(stride, Const))

    def _scalar_nest(self, stage: Stage) -> Stmt:
        target, body = element_of(stage, self._storage), stage.body
        if not isinstance(body, Reduce):
            body = within(body, self._regions[stage].inside)
            value, loads = load_all(body, stage, self._storage)
            return self._loops(stage, stage.leaves, Store(target, value, loads))
        source, loads = load_all(body.source, stage, self._storage)
        update = Store(target, Reduce(body.kind, source, ()), loads)
        return self._after_start(stage, body, stage.leaves, update)

    def _after_start(self, stage: Stage, body: Reduce, leaves: list[IterVar], update: Stmt) -> Stmt:
        """Return the loops of a reduction's updates, what they start from stored before them."""
        target = element_of(stage, self._storage)
        outer = next((k for k, leaf in enumerate(leaves) if leaf.kind == "reduce"), len(leaves))
        start: Stmt = Store(target, _start(body), ())
        if body.start is not None:
            start = Store(target, *load_all(body.start, stage, self._storage))
        for leaf in reversed([leaf for leaf in stage.leaves[outer:] if leaf.kind == "data"]):
            extent = self._regions[stage].loop_extents[leaf]
            if extent != Const(1):
                start = For(leaf.var, extent, start, _kind(stage, leaf))
        inner = _block(start, self._loops(stage, leaves[outer:], update))
        return self._loops(stage, leaves[:outer], inner)


def _block(*stmts: Stmt) -> Stmt:
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Block) else (stmt,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def _kind(stage: Stage, leaf: IterVar) -> str:
    notes = stage.annotations.get(leaf, {})
    if "bind" in notes:
        return str(notes["bind"])
    return next((k for k in ("unroll", "vectorize", "parallel") if k in notes), "serial")


def _start(body: Reduce) -> Const | Real:
    """Return what a reduction starts from; no source is below a maximum's or above a minimum's."""
    if body.dtype.startswith("float"):
        return Real({"sum": 0.0, "max": -inf, "min": inf}[body.kind], body.dtype)
    if body.kind == "sum":
        return Const(0, body.dtype)
    low, high = value_range(body.source)
    return Const(low if body.kind == "max" else high, body.dtype)


def _check_scopes(
    stage: Stage, scopes: tuple[str, ...], accesses: tuple[Access, ...], name: str
) -> None:
    for scope, access in zip(scopes, accesses, strict=True):
        if access.buffer.scope != scope:
            raise LoweringError(
                f"Intrinsic {name} needs {access.buffer.name} in scope {scope}, not "
                f"{access.buffer.scope}, in stage {stage.name}: use set_scope or cache_read."
            )


def build_nests(schedule: Schedule) -> Nest:
    """Return the loops of a schedule.

    Before: stages with their loops and places. After: one program of loops, allocations,
    intrinsics and copies over buffers, with the indices worked out.
    """
    stages = inline_stages(schedule)
    regions = infer_regions(stages)
    check_terms(stages, regions)
    storage = Storage(stages, schedule.outputs, regions)
    storage.settle()
    builder = _Builder(storage)
    body = builder.attached(None, None, Block(()))
    for stage in stages:
        if stage not in builder.built:
            assert stage.attach is not None
            raise LoweringError(
                f"{stage.name} is computed at loop {stage.attach.axis.name} of "
                f"{stage.attach.stage.name}, which an intrinsic or a copy replaces: attach it "
                "further out."
            )
    return Nest(body, storage.arguments)
