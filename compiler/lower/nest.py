"""From a schedule to loops: every stage becomes a nest inside the loop where it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from vdla.compiler.ir.linear import const_bounds, lookup, simplify
from vdla.compiler.ir.stmt import (
    Access,
    Alloc,
    Block,
    Buffer,
    Condition,
    Copy,
    For,
    Intrinsic,
    Move,
    Stmt,
    Store,
)
from vdla.compiler.te.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Reduce,
    Select,
    Var,
    as_expr,
    map_expr,
    walk,
)
from vdla.compiler.te.schedule import Schedule
from vdla.compiler.te.stage import Stage
from vdla.compiler.te.tensor import IterVar, Tensor
from vdla.errors import LoweringError

from .match import Match, match_intrinsic
from .regions import Region, Regions, infer_regions, inline_stages

__all__ = ["DMA_PRAGMA", "Nest", "build_nests"]

DMA_PRAGMA = "dma_copy"
"""Pragma that turns a copy stage's loops, from the marked one inwards, into one copy."""

_LEAST = {"int8": -128, "int32": -(1 << 31)}
_GREATEST = {"int8": 127, "int32": (1 << 31) - 1}


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


@dataclass
class _Builder:
    stages: list[Stage]
    outputs: tuple[Tensor, ...]
    regions: Regions
    buffers: dict[Tensor, Buffer] = field(default_factory=dict)
    strides: dict[Tensor, tuple[Expr, ...]] = field(default_factory=dict)
    arguments: dict[Tensor, Buffer] = field(default_factory=dict)
    matches: dict[Stage, Match] = field(default_factory=dict)
    moved: set[Stage] = field(default_factory=set)
    built: set[Stage] = field(default_factory=set)

    def settle(self) -> None:
        """Match every intrinsic and choose every buffer, producers first.

        A stage that updates its operand in place shares the operand's buffer where nothing else
        needs the old values; elsewhere the operand is moved into a buffer of its own first.
        """
        for stage in self.stages:
            axis = next((leaf for leaf in stage.leaves if leaf in stage.intrinsics), None)
            if axis is not None:
                inner = stage.leaves[stage.leaves.index(axis) :]
                intrin = stage.intrinsics[axis]
                found = match_intrinsic(stage, self.regions[stage], intrin, inner)
                self.matches[stage] = found
                if intrin.in_place is not None and not isinstance(stage.body, Reduce):
                    self._share(stage, found, intrin.in_place)
            self.buffer(stage.tensor)

    def _share(self, stage: Stage, found: Match, operand: int) -> None:
        source = found.operands[operand]
        assert source is not None
        place = self.access(*source)
        if self._may_alias(stage, source[0]):
            self.buffers[stage.tensor] = self.buffers[source[0]]
            self.strides[stage.tensor] = self.strides[source[0]]
            if self.access(stage.tensor, found.output) == place:
                return
            del self.buffers[stage.tensor], self.strides[stage.tensor]
        self.moved.add(stage)

    # Buffers

    def buffer(self, tensor: Tensor) -> Buffer:
        """Return a tensor's buffer, made at its first use."""
        if tensor not in self.buffers:
            stage = next((s for s in self.stages if s.tensor is tensor), None)
            if stage is None or tensor in self.outputs:
                extents: tuple[Expr, ...] = tuple(as_expr(extent) for extent in tensor.shape)
                outside: tuple[tuple[Var, Expr], ...] = ()
                scope = stage.scope if stage else "global"
            else:
                region = self.regions[stage]
                extents, outside, scope = region.extents, region.outside, stage.scope
            self.strides[tensor] = _row_major(extents)
            size = 1
            for extent in extents:
                size *= const_bounds(extent, outside)[1]
            self.buffers[tensor] = Buffer(tensor.name, tensor.dtype, scope, size)
            if stage is None or tensor in self.outputs:
                self.arguments[tensor] = self.buffers[tensor]
        return self.buffers[tensor]

    def access(self, tensor: Tensor, indices: tuple[Expr, ...]) -> Access:
        """Return where an element lies: its index less the region's start, times the strides."""
        buffer = self.buffer(tensor)
        stage = next((s for s in self.stages if s.tensor is tensor), None)
        offset: Expr = Const(0)
        for k, (index, stride) in enumerate(zip(indices, self.strides[tensor], strict=True)):
            low = (
                Const(0) if stage is None or tensor in self.outputs else self.regions[stage].mins[k]
            )
            offset = offset + simplify(index - low) * stride
        return Access(buffer, simplify(offset))

    # Nests

    def attached(self, stage: Stage | None, axis: IterVar | None, inner: Stmt) -> Stmt:
        """Put the stages computed at one loop in front of what follows there."""
        here = [
            s
            for s in self.stages
            if (s.attach is None and stage is None)
            or (s.attach is not None and s.attach.stage is stage and s.attach.axis is axis)
        ]
        nests = [self.nest(s) for s in here]
        body: Stmt = Block((*_flat(nests), *_flat([inner])))
        made = [self.buffers[s.tensor] for s in here if s.tensor not in self.outputs]
        for buffer in reversed(list(dict.fromkeys(made))):
            body = Alloc(buffer, body)
        return body

    def nest(self, stage: Stage) -> Stmt:
        """Return the loops of one stage."""
        region = self.regions[stage]
        self.built.add(stage)
        cut = next(
            (
                k
                for k, leaf in enumerate(stage.leaves)
                if leaf in stage.intrinsics or DMA_PRAGMA in stage.annotations.get(leaf, {})
            ),
            len(stage.leaves),
        )
        outer = stage.leaves[:cut]
        if cut == len(stage.leaves):
            return self._scalar_nest(stage, region)
        if stage.leaves[cut] in stage.intrinsics:
            return self._intrinsic_nest(stage, region, outer, stage.leaves[cut])
        copy = self._copy(stage, region, stage.leaves[cut:])
        return self.loops(stage, outer, copy)

    def loops(self, stage: Stage, leaves: list[IterVar], inner: Stmt, attach: bool = True) -> Stmt:
        """Wrap a statement in a stage's loops; loops of one iteration vanish."""
        region = self.regions[stage]
        body = inner
        for leaf in reversed(leaves):
            if attach:
                hosted = any(s.attach and s.attach.axis is leaf for s in self.stages)
                body = self.attached(stage, leaf, body) if hosted else body
            extent = region.loop_extents[leaf]
            if extent != Const(1):
                body = For(leaf.var, extent, body, _kind(stage, leaf))
        return body

    def _intrinsic_nest(
        self, stage: Stage, region: Region, outer: list[IterVar], axis: IterVar
    ) -> Stmt:
        intrin, found = stage.intrinsics[axis], self.matches[stage]
        output = self.access(stage.tensor, found.output)
        first: tuple[Var, ...] = ()
        start = None
        if isinstance(stage.body, Reduce):
            first = tuple(
                leaf.var
                for leaf in outer
                if leaf.kind == "reduce" and region.loop_extents[leaf] != Const(1)
            )
            start = _start(stage.body)
        before: list[Stmt] = []
        if stage in self.moved:
            assert intrin.in_place is not None
            source = found.operands[intrin.in_place]
            assert source is not None
            move = Move(output, self.access(*source), prod(intrin.declaration.shape))
            before.append(self.loops(stage, outer, move, attach=False))
        operands = tuple(
            output if read is None or k == intrin.in_place else self.access(*read)
            for k, read in enumerate(found.operands)
        )
        _check_scopes(stage, intrin.scopes, (output, *operands), intrin.name)
        call = Intrinsic(intrin, output, operands, found.scalars, first, start)
        nest = self.loops(stage, outer, call)
        return Block((*_flat(before), *_flat([nest]))) if before else nest

    def _may_alias(self, stage: Stage, source: Tensor) -> bool:
        producer = next((s for s in self.stages if s.tensor is source), None)
        if producer is None or source in self.outputs or producer.scope != stage.scope:
            return False
        readers = [s for s in self.stages if source in s.reads()]
        reads = [p for p in walk(stage.body) if isinstance(p, Read) and p.tensor is source]
        same_place = producer.attach is stage.attach or (
            producer.attach is not None
            and stage.attach is not None
            and producer.attach.axis is stage.attach.axis
        )
        extents = self.regions[producer].extents == self.regions[stage].extents
        return readers == [stage] and len(reads) == 1 and same_place and extents

    def _copy(self, stage: Stage, region: Region, inner: list[IterVar]) -> Copy:
        body = stage.body
        conditions: tuple[Condition, ...] = ()
        pad = 0
        while isinstance(body, Cast):
            body = body.value
        if isinstance(body, Select):
            if not isinstance(body.other, Const):
                raise LoweringError(f"The padding of copy {stage.name} must be a constant.")
            pad, conditions = body.other.value, _conditions(body.condition, region, stage.name)
            body = body.then
            while isinstance(body, Cast):
                body = body.value
        if not isinstance(body, Read):
            raise LoweringError(
                f"A stage marked {DMA_PRAGMA} must copy a tensor, padded by a select at most; "
                f"{stage.name} computes {type(body).__name__}."
            )
        indices = tuple(lookup(index, region.values) for index in body.indices)
        source = self.access(body.tensor, indices)
        target = self.access(
            stage.tensor, tuple(lookup(axis.var, region.values) for axis in stage.axis)
        )
        loops = tuple((leaf.var, region.loop_extents[leaf]) for leaf in inner)
        return Copy(target, source, loops, conditions, pad)

    def _scalar_nest(self, stage: Stage, region: Region) -> Stmt:
        target = self.access(
            stage.tensor, tuple(lookup(axis.var, region.values) for axis in stage.axis)
        )
        body, update = stage.body, None
        if isinstance(body, Reduce):
            source = self._loads(body.source, region)
            update = Store(target, Reduce(body.kind, source[0], ()), source[1])
            outer = next(
                (k for k, leaf in enumerate(stage.leaves) if leaf.kind == "reduce"),
                len(stage.leaves),
            )
            init = Store(target, Const(_start(body), body.dtype), ())
            data = [leaf for leaf in stage.leaves[outer:] if leaf.kind == "data"]
            inner = Block(
                (
                    *_flat([self.loops(stage, data, init, attach=False)]),
                    *_flat([self.loops(stage, stage.leaves[outer:], update)]),
                )
            )
            return self.loops(stage, stage.leaves[:outer], inner)
        value, loads = self._loads(body, region)
        return self.loops(stage, stage.leaves, Store(target, value, loads))

    def _loads(self, body: Expr, region: Region) -> tuple[Expr, tuple[Access, ...]]:
        """Put `Load` calls by position where the body reads tensors."""
        loads: list[Access] = []

        def visit(expr: Expr) -> Expr | None:
            if isinstance(expr, Read):
                indices = tuple(lookup(index, region.values) for index in expr.indices)
                loads.append(self.access(expr.tensor, indices))
                return Call("load", (), expr.dtype, (("position", len(loads) - 1),))
            return region.values.get(expr) if isinstance(expr, Var) else None

        return map_expr(body, visit), tuple(loads)


def _row_major(extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = Const(1)
    for extent in reversed(extents):
        strides.append(step)
        step = simplify(step * extent)
    return tuple(reversed(strides))


def _flat(stmts: list[Stmt]) -> list[Stmt]:
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(_flat(list(stmt.stmts)) if isinstance(stmt, Block) else [stmt])
    return flat


def _kind(stage: Stage, leaf: IterVar) -> str:
    notes = stage.annotations.get(leaf, {})
    if "bind" in notes:
        return str(notes["bind"])
    return next((k for k in ("unroll", "vectorize", "parallel") if k in notes), "serial")


def _start(body: Reduce) -> int:
    if body.kind == "sum":
        return 0
    table = _LEAST if body.kind == "max" else _GREATEST
    narrow = [p.dtype for p in walk(body.source) if isinstance(p, Read)]
    return table.get(narrow[0] if narrow else body.dtype, table["int32"])


def _conditions(expr: Expr, region: Region, name: str) -> tuple[Condition, ...]:
    if isinstance(expr, Binary) and expr.op == "and":
        return _conditions(expr.a, region, name) + _conditions(expr.b, region, name)
    if isinstance(expr, Binary) and expr.op in ("<", "<="):
        a, b = lookup(expr.a, region.values), lookup(expr.b, region.values)
        strict = expr.op == "<"
        big = 1 << 40
        if isinstance(b, Const):
            return (Condition(a, -big, b.value + (0 if strict else 1)),)
        if isinstance(a, Const):
            return (Condition(b, a.value + (1 if strict else 0), big),)
    raise LoweringError(
        f"The padding condition of {name} must be comparisons with constants joined by and."
    )


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
    builder = _Builder(stages, schedule.outputs, infer_regions(stages))
    builder.settle()
    body = builder.attached(None, None, Block(()))
    for stage in stages:
        if stage not in builder.built:
            assert stage.attach is not None
            raise LoweringError(
                f"{stage.name} is computed at loop {stage.attach.axis.name} of "
                f"{stage.attach.stage.name}, which an intrinsic or a copy replaces: attach it "
                "further out."
            )
    return Nest(body, builder.arguments)
