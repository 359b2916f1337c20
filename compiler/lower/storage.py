"""Where tensors lie: a buffer for each region, shared where an operation may work in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vdla.compiler.ir.linear import const_bounds, simplify
from vdla.compiler.ir.stmt import Access, Buffer
from vdla.compiler.te.expr import Const, Expr, Read, Reduce, Var, as_expr
from vdla.compiler.te.stage import Stage
from vdla.compiler.te.tensor import Tensor
from vdla.compiler.te.traverse import walk
from vdla.errors import LoweringError

from .match import Match, match_intrinsic
from .regions import SHARED, Regions

__all__ = ["Storage"]


@dataclass
class Storage:
    """Buffers of a schedule and the intrinsics that decide which may share one.

    Attributes
    ----------
    stages : list of Stage
        Producers first.
    outputs : tuple of Tensor
    regions : dict of Stage to Region
    buffers : dict of Tensor to Buffer
    strides : dict of Tensor to tuple of Expr
        Scalars between neighbours, one a dimension.
    arguments : dict of Tensor to Buffer
        Tensors in memory, whole.
    matches : dict of Stage to Match
        Stages that an intrinsic computes.
    moved : set of Stage
        Stages whose operand is moved before an intrinsic destroys it.
    """

    stages: list[Stage]
    outputs: tuple[Tensor, ...]
    regions: Regions
    buffers: dict[Tensor, Buffer] = field(default_factory=dict)
    strides: dict[Tensor, tuple[Expr, ...]] = field(default_factory=dict)
    arguments: dict[Tensor, Buffer] = field(default_factory=dict)
    matches: dict[Stage, Match] = field(default_factory=dict)
    moved: set[Stage] = field(default_factory=set)
    _stage_of: dict[Tensor, Stage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stage_of = {stage.tensor: stage for stage in self.stages}

    def settle(self) -> None:
        """Match every intrinsic and choose every buffer, producers first.

        A stage that updates its operand in place, or goes on with a sum, shares the operand's
        buffer where nothing else needs the old values; elsewhere the operand is moved into a
        buffer of its own first.
        """
        for stage in self.stages:
            axis = next((leaf for leaf in stage.leaves if leaf in stage.intrinsics), None)
            if axis is not None:
                inner = stage.leaves[stage.leaves.index(axis) :]
                intrin = stage.intrinsics[axis]
                found = match_intrinsic(stage, self.regions[stage], intrin, inner)
                self.matches[stage] = found
                if found.start is not None:
                    self._share(stage, found, found.start)
                elif intrin.in_place is not None and not isinstance(stage.body, Reduce):
                    self._share(stage, found, found.operands[intrin.in_place])
            self.buffer(stage.tensor)

    def _share(
        self, stage: Stage, found: Match, source: tuple[Tensor, tuple[Expr, ...]] | None
    ) -> None:
        assert source is not None
        place = self.access(*source)
        if self._may_alias(stage, source[0]):
            self.buffers[stage.tensor] = self.buffers[source[0]]
            self.strides[stage.tensor] = self.strides[source[0]]
            if self.access(stage.tensor, found.output) == place:
                return
            del self.buffers[stage.tensor], self.strides[stage.tensor]
        self.moved.add(stage)

    def _may_alias(self, stage: Stage, source: Tensor) -> bool:
        producer = self._stage_of.get(source)
        if producer is None or {source, stage.tensor} & set(self.outputs):
            return False
        if producer.scope != stage.scope or source.dtype != stage.tensor.dtype:
            return False
        readers = [s for s in self.stages if source in s.reads()]
        reads = [p for p in walk(stage.body) if isinstance(p, Read) and p.tensor is source]
        same_place = producer.attach is stage.attach or (
            producer.attach is not None
            and stage.attach is not None
            and producer.attach.axis is stage.attach.axis
        )
        extents = self.regions[producer].extents == self.regions[stage].extents
        return readers == [stage] and len(set(reads)) == 1 and same_place and extents

    def buffer(self, tensor: Tensor) -> Buffer:
        """Return a tensor's buffer, made at its first use."""
        if tensor not in self.buffers:
            stage = self._stage_of.get(tensor)
            whole = stage is None or tensor in self.outputs
            if stage is None or whole:
                extents: tuple[Expr, ...] = tuple(as_expr(extent) for extent in tensor.shape)
                outside: tuple[tuple[Var, Expr], ...] = ()
                scope = stage.scope if stage else "global"
            else:
                region = self.regions[stage]
                extents, outside, scope = region.extents, region.outside, stage.scope
            factors = (1,) * len(extents) if stage is None else _factors(stage, whole=whole)
            most = [max(0, const_bounds(extent, outside)[1]) for extent in extents]
            size, *steps = _padded(most, factors)
            packed = max(factors, default=1) == 1
            self.strides[tensor] = _row_major(extents) if packed else tuple(map(Const, steps))
            self.buffers[tensor] = Buffer(tensor.name, tensor.dtype, scope, size)
            if whole:
                self.arguments[tensor] = self.buffers[tensor]
        return self.buffers[tensor]

    def access(self, tensor: Tensor, indices: tuple[Expr, ...]) -> Access:
        """Return where an element lies: its index less the region's start, times the strides."""
        buffer = self.buffer(tensor)
        stage = self._stage_of.get(tensor)
        mins = None if stage is None or tensor in self.outputs else self.regions[stage].mins
        offset: Expr = Const(0)
        for k, (index, stride) in enumerate(zip(indices, self.strides[tensor], strict=True)):
            offset = offset + simplify(index - mins[k] if mins else index) * stride
        return Access(buffer, simplify(offset))


def _factors(stage: Stage, *, whole: bool) -> tuple[int, ...]:
    """Return what the step along each dimension must be a multiple of."""
    factors = tuple(stage.storage_factor(axis) for axis in stage.axis)
    if max(factors, default=1) > 1 and (whole or stage.scope not in ("global", SHARED)):
        raise LoweringError(
            f"A buffer that is padded must lie in memory and be read by stages alone, and "
            f"{stage.name} is {'an output' if whole else f'in {stage.scope}'}: pad another stage, "
            "or one that cache_read or cache_write adds"
        )
    return factors


def _row_major(extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = Const(1)
    for extent in reversed(extents):
        strides.append(step)
        step = simplify(step * extent)
    return tuple(reversed(strides))


def _padded(extents: Sequence[int], factors: Sequence[int]) -> list[int]:
    """Return the size, and the step along each dimension: a multiple of its factor."""
    steps = [1]
    for extent, factor in zip(reversed(extents), reversed(factors), strict=True):
        steps[0] = -(-steps[0] // factor) * factor
        steps.insert(0, steps[0] * extent)
    return steps
