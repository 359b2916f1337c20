"""Random legal schedules: every primitive, at random places, consumers before producers."""

from __future__ import annotations

import numpy as np

from tests.compiler.lower.expressions import Expression
from vdla.compiler.te import IterVar, Schedule, Stage, create_schedule
from vdla.compiler.te.expr import Reduce
from vdla.compiler.te.relations import Split
from vdla.compiler.te.tensor import Tensor

__all__ = ["random_schedule"]


def _dependences(stage: Stage) -> dict[IterVar, set[IterVar]]:
    """Return the loops that each loop's extent may depend on, if no factor divides."""
    found: dict[IterVar, set[IterVar]] = {axis: set() for axis in (*stage.axis, *stage.reduce_axis)}

    def replace(old: set[IterVar], new: set[IterVar]) -> None:
        for axis, others in found.items():
            if others & old:
                found[axis] = (others - old) | new

    for relation in stage.relations:
        if isinstance(relation, Split):
            outside = found[relation.parent]
            replace({relation.parent}, {relation.outer, relation.inner})
            found[relation.outer] = set(outside)
            found[relation.inner] = outside | {relation.outer}
        else:
            joined = found[relation.outer] | found[relation.inner]
            replace({relation.outer, relation.inner}, {relation.fused})
            found[relation.fused] = joined - {relation.outer, relation.inner}
    return found


class _Chooser:
    def __init__(self, rng: np.random.Generator, schedule: Schedule, outputs: tuple[Tensor, ...]):
        self.rng, self.s, self.outputs = rng, schedule, outputs
        self.fixed: dict[Stage, list[IterVar]] = {}

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def caches(self, inputs: list[Tensor]) -> None:
        for stage in list(self.s.stages):
            if self.chance(0.2):
                self.s.cache_write(stage.tensor, "acc")
        for tensor in [*inputs, *(stage.tensor for stage in self.s.stages)]:
            readers = [stage.tensor for stage in self.s.consumers(tensor)]
            if readers and self.chance(0.25):
                some = [r for r in readers if self.chance(0.7)] or readers
                self.s.cache_read(tensor, "inp", some)

    def inline(self) -> None:
        for stage in self.s.stages:
            inner = stage.tensor not in self.outputs and not isinstance(stage.body, Reduce)
            if inner and self.chance(0.2):
                stage.compute_inline()

    def loops(self, stage: Stage) -> None:
        """Split, fuse and reorder one stage's loops."""
        for _ in range(int(self.rng.integers(0, 5))):
            choice = self.rng.random()
            if choice < 0.5 and len(stage.leaves) < 8:
                axis = self.pick(stage.leaves)
                amount = int(self.rng.integers(1, 6))
                if self.chance(0.7):
                    stage.split(axis, factor=amount)
                else:
                    stage.split(axis, nparts=amount)
            elif choice < 0.65 and len(stage.leaves) > 1:
                at = int(self.rng.integers(len(stage.leaves) - 1))
                outer, inner = stage.leaves[at : at + 2]
                if outer.kind == inner.kind and outer not in _dependences(stage)[inner]:
                    stage.fuse(outer, inner)
            elif len(stage.leaves) > 1:
                some = [leaf for leaf in stage.leaves if self.chance(0.6)]
                order = [some[i] for i in self.rng.permutation(len(some))]
                before = list(stage.leaves)
                stage.reorder(*order)
                if any(
                    outer in _dependences(stage)[inner]
                    for k, inner in enumerate(stage.leaves)
                    for outer in stage.leaves[k + 1 :]
                ):
                    stage.leaves[:] = before
            if self.chance(0.2) and 1 < len(stage.leaves) < 6:
                y, x = stage.leaves[:2]
                if y not in _dependences(stage)[x]:
                    stage.tile(y, x, int(self.rng.integers(1, 4)), int(self.rng.integers(1, 4)))
        data = [leaf for leaf in stage.leaves if leaf.kind == "data"]
        if data and self.chance(0.3):
            stage.bind(self.pick(data), "vthread")
        if self.chance(0.2):
            stage.unroll(stage.leaves[-1])
        if stage.scope == "global" and stage.tensor not in self.outputs and self.chance(0.3):
            stage.storage_align(self.pick(stage.axis), int(self.rng.integers(1, 9)))

    def _path(self, stage: Stage) -> list[tuple[Stage, IterVar]]:
        outside: list[tuple[Stage, IterVar]] = []
        if stage.attach is not None:
            host = stage.attach.stage
            path = self._path(host)
            outside = path[: path.index((host, stage.attach.axis)) + 1]
        return outside + [(stage, leaf) for leaf in stage.leaves]

    def place(self, stage: Stage) -> None:
        """Compute a stage inside any loop that holds all its readers."""
        if stage.tensor in self.outputs or self.chance(0.3):
            return
        readers = self._readers(stage.tensor)
        paths = [self._path(reader) for reader in readers]
        common = []
        for places in zip(*paths, strict=False):
            if any(place != places[0] for place in places):
                break
            common.append(places[0])
        if common:
            host, axis = self.pick(common)
            stage.compute_at(host, axis)

    def _readers(self, tensor: Tensor) -> list[Stage]:
        readers: list[Stage] = []
        for stage in self.s.consumers(tensor):
            readers += self._readers(stage.tensor) if stage.inlined else [stage]
        return readers


def random_schedule(rng: np.random.Generator, expression: Expression) -> Schedule:
    schedule = create_schedule(expression.outputs)
    chooser = _Chooser(rng, schedule, expression.outputs)
    chooser.caches(list(expression.inputs))
    chooser.inline()
    for stage in reversed(schedule.stages):
        if stage.inlined:
            continue
        chooser.place(stage)
        chooser.loops(stage)
    return schedule
