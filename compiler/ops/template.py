"""The convolution's schedule template: chosen by rules, found in records, or searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

from vdla.compiler.graph import Graph, Node
from vdla.compiler.lower.nest import build_nests
from vdla.compiler.targets.vdla.build import Operator, build
from vdla.compiler.te import Schedule, Tensor
from vdla.compiler.tune.features import Features, features
from vdla.compiler.tune.kept import kept
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import Task
from vdla.config import Config
from vdla.errors import InputError, LoweringError

from .conv2d import Conv2d, ConvTensors, ConvTile, conv2d
from .conv_schedule import schedule_conv2d
from .convolution import Described, describe
from .footprint import fits
from .lowered import Array, LoweredNode
from .residual import add_onto, work_onto
from .scheduling import Scheduling
from .tiling import bound, candidates, choose_tile, floor

__all__ = ["ConvTemplate", "lower_convolution"]

_VERSION = 1
"""Of the template; records of another one are not used."""


@dataclass(frozen=True, eq=False)
class ConvTemplate:
    """A node that runs as a convolution, and an addition onto it, on one accelerator.

    Parameters
    ----------
    graph : Graph
        Of the node, or of it and the addition.
    config : Config
    vthreads : int
        1 or 2.
    """

    graph: Graph
    config: Config
    vthreads: int = 2

    unit: ClassVar[str] = "cycles"

    @classmethod
    def of(
        cls,
        graph: Graph,
        node: Node,
        config: Config,
        vthreads: int = 2,
        addition: Node | None = None,
    ) -> ConvTemplate:
        """Return the template of a node of a network."""
        return cls(graph.part([node] if addition is None else [node, addition]), config, vthreads)

    def __reduce__(self) -> tuple[Any, ...]:
        return kept, (self.task.key, ConvTemplate, self.graph, self.config, self.vthreads)

    @cached_property
    def conv(self) -> Conv2d:
        """What is computed."""
        return self._parts[0]

    @cached_property
    def tensors(self) -> ConvTensors:
        """Its tensor expressions."""
        return self._parts[1]

    @cached_property
    def constants(self) -> Mapping[Tensor, Array]:
        """Packed weights and parameters."""
        return self._parts[2]

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """Placeholders of the graph's inputs."""
        added = self.tensors.added
        return (self.tensors.data, *(() if added is None else (added.data,)))

    @cached_property
    def task(self) -> Task:
        """The key of its records."""
        config = self.config
        target = {
            "kind": "vdla",
            "config": f"{config.hash:016x}",
            "dram_latency_cycles": config.dram_latency_cycles,
            "dram_pace": list(config.dram_pace),
            "vthreads": self.vthreads,
        }
        return Task("conv2d", _VERSION, _changed(self.conv.shape), target)

    @cached_property
    def space(self) -> Space:
        """Every tile that fits the scratchpads."""
        return Space(asdict(tile) for tile in candidates(self.conv, self.config, self.vthreads))

    def prior(self, point: Point) -> float:
        """Return an analytic estimate of a point's cycles."""
        return bound(self.conv, _tile(point), self.config)

    def floor(self, point: Point) -> float:
        """Return cycles that a point cannot go below."""
        return floor(self.conv, _tile(point), self.config)

    def features(self, point: Point) -> Features | None:
        """Return what a cost model sees of a point, None where it cannot be lowered."""
        try:
            return features(build_nests(self.schedule(_tile(point))).body)
        except LoweringError:
            return None

    def build(self, point: Point) -> Operator:
        """Return a point as a program.

        Raises
        ------
        LoweringError
            It does not fit, or cannot be lowered.
        """
        arguments = [*self.inputs, *self.constants, self.tensors.result]
        return build(self.schedule(_tile(point)), arguments, self.config)

    def schedule(self, tile: ConvTile) -> Schedule:
        """Return the schedule of a tile."""
        return schedule_conv2d(self.tensors, tile, self.config)

    def choose(self, scheduling: Scheduling) -> tuple[ConvTile, int]:
        """Return a tile and its cycles: of a record, measured, or estimated.

        Raises
        ------
        InputError
            A record's tile does not fit.
        LoweringError
            No tile fits; the message says what the smallest one needs.
        """
        rank = scheduling.rank
        if rank is None:
            known = scheduling.records.find(self.task, scheduling.network)
            if known is not None and known.cost is not None:
                return self._fitting(known.point), round(known.cost)
        return choose_tile(
            self.conv,
            self.config,
            vthreads=self.vthreads,
            measure=None if rank is None else lambda t: rank(self.schedule(t), self.tensors),
        )

    def lowered(self, tile: ConvTile, cycles: int) -> LoweredNode:
        """Return the node scheduled by a tile."""
        return LoweredNode(
            self.schedule(tile),
            self.inputs,
            dict(self.constants),
            self.tensors.result,
            self.config.block_in,
            self.config.block_out,
            cycles,
            self,
            asdict(tile),
        )

    def _fitting(self, point: Point) -> ConvTile:
        if not self._is_tile(point) or not fits(self.conv, _tile(point), self.config):
            raise InputError(
                f"A record's tile must fit {self.config.name}, and {dict(point)} does not, for "
                f"{self.task.name}: leave that record out, or tune again."
            )
        return _tile(point)

    def _is_tile(self, point: Point) -> bool:
        """Tell whether knobs are those of a tile, each of its kind."""
        conv = self.conv
        most = {
            "out_blocks": conv.out_blocks,
            "rows": conv.out_height,
            "columns": conv.out_width,
            "in_blocks": conv.reduction_blocks,
        }
        if set(point) != {one.name for one in fields(ConvTile)}:
            return False
        whole = all(_is_size(point[name], size) for name, size in most.items())
        flags = (type(point[name]) is bool for name in ("weights_outside", "params_inside"))
        return whole and all(flags) and point["thread_axis"] in ("none", "out", "rows")

    @cached_property
    def _parts(self) -> tuple[Conv2d, ConvTensors, dict[Tensor, Array]]:
        node, *additions = self.graph.nodes
        found: Described = describe(self.graph, node, self.config)
        conv, tensors = found.conv, conv2d(found.conv, self.config)
        constants: dict[Tensor, Array] = {
            tensors.weights: found.weights,
            tensors.params: found.params,
        }
        if tensors.listed_weights is not None and found.listed is not None:
            constants[tensors.listed_weights] = found.listed
        for addition in additions:
            work = work_onto(self.graph, node, addition)
            conv = replace(conv, added_passes=1 + work.passes, added_sets=len(work.sets))
            tensors = add_onto(tensors, work, self.config)
            assert tensors.added is not None
            constants |= {
                tensors.added.params: work.packed(self.config),
                **tensors.added.mover.constants,
            }
        return conv, tensors, constants


def lower_convolution(
    graph: Graph,
    node: Node,
    config: Config,
    scheduling: Scheduling,
    addition: Node | None = None,
) -> LoweredNode:
    """Choose a tile for a node and return its schedule with packed constants.

    Parameters
    ----------
    addition : Node, optional
        An addition of the node's output, to compute on its tiles; its other operand is the second
        input.

    Raises
    ------
    LoweringError
        The node fits the scratchpads at no tiling.
    """
    template = ConvTemplate.of(graph, node, config, scheduling.vthreads, addition)
    return template.lowered(*template.choose(scheduling))


def _is_size(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _tile(point: Point) -> ConvTile:
    return ConvTile(**point)  # type: ignore[arg-type]


def _changed(conv: Conv2d) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    every = {field.name: (getattr(conv, field.name), field.default) for field in fields(conv)}
    return {name: value for name, (value, default) in every.items() if value != default}
