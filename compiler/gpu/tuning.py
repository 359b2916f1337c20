"""A product or a convolution on a GPU, and what is fused to it, as a search space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.lower.nest import build_nests
from vdla.compiler.te import create_schedule
from vdla.compiler.te.expr import Reduce
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.features import Features, features
from vdla.compiler.tune.fragment import Fragment, counted, shape_of
from vdla.compiler.tune.kept import kept
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import Task
from vdla.errors import InputError, LoweringError

from .estimate import seconds_of
from .part import Part, part_of
from .parts import graph_parts
from .template import default_tile, takes_tiles, terms_of, tiled_definition, tiled_schedule
from .tiles import ConvolutionSums, ProductSums, Sums, Tile, point_of, tiles_of

__all__ = ["TEMPLATE_VERSION", "GpuMachine", "GpuTemplate", "recorded_tile", "templates_of"]

TEMPLATE_VERSION = 2
"""Of the template: another one where points, what is made of them, or estimates differ, by which
costs are scaled; records of it are then not used."""


@dataclass(frozen=True)
class GpuMachine:
    """Where kernels run.

    Attributes
    ----------
    kind : str
        What drives it: ``opencl`` or ``cuda``.
    device : str
        Its name, as the device gives it.
    """

    kind: str
    device: str


@dataclass(frozen=True, eq=False)
class GpuTemplate:
    """An operator that has a template, and what is fused to it, on one GPU.

    Parameters
    ----------
    fragment : Fragment
        Those operators alone.
    machine : GpuMachine
    """

    fragment: Fragment
    machine: GpuMachine

    unit = "seconds"

    def __reduce__(self) -> tuple[Any, ...]:
        return kept, (self.task.key, _restored, *self.fragment.sent, self.machine)

    @property
    def graph(self) -> Graph:
        """The operators."""
        return self.fragment.graph

    @cached_property
    def task(self) -> Task:
        """The key of its records."""
        return _task(self.graph, self.graph.nodes, self.machine)

    @property
    def default(self) -> Point:
        """The point by rules."""
        return self.space[0]

    @cached_property
    def space(self) -> Space:
        """Every tile that may pay; the one by rules is the first."""
        return Space(point_of(tile) for tile in self._tiles)

    def prior(self, point: Point) -> float:
        """Return an analytic estimate of a point's seconds, on a nominal GPU."""
        return seconds_of(self._sums.work(self._tile(point)))

    def floor(self, point: Point) -> float:
        """Return 0: nothing is known that a point's seconds cannot go below."""
        return 0.0

    def features(self, point: Point) -> Features | None:
        """Return what a cost model sees of a point, None where it cannot be lowered."""
        try:
            part = self._part
            schedule = tiled_schedule(self.graph, part.nodes[0], part.output, self._tile(point))
            return features(build_nests(schedule).body)
        except LoweringError:
            return None

    @cached_property
    def _part(self) -> Part:
        nodes = self.graph.nodes
        return part_of(self.graph, nodes, tiled_definition(self.graph, nodes[0]))

    @cached_property
    def _tiles(self) -> list[Tile]:
        """In the order of the space."""
        return tiles_of(self._sums, _default(self.graph, self._part))

    @cached_property
    def _sums(self) -> Sums:
        return _sums(self.graph, self._part)

    def _tile(self, point: Point) -> Tile:
        return self._tiles[self.space.index(point)]


def templates_of(graph: Graph, machine: GpuMachine) -> list[tuple[GpuTemplate, int]]:
    """Return the templates of a network's operators on a GPU, and how often each occurs.

    Parameters
    ----------
    graph : Graph
    machine : GpuMachine

    Raises
    ------
    LoweringError
        An operator has no definition for its tensors.
    """
    parts = (part.nodes for part in graph_parts(graph) if _is_tuned(graph, part.nodes[0]))
    return counted(
        parts,
        lambda nodes: _task(graph, nodes, machine),
        lambda nodes: GpuTemplate(Fragment.of(graph, nodes), machine),
    )


def recorded_tile(
    records: Database | None, graph: Graph, part: Part, machine: GpuMachine | None
) -> Tile | None:
    """Return what the record of exactly this task says, None where there is none.

    Raises
    ------
    InputError
        The record's point is none of the template's.
    """
    if records is None or machine is None or not _is_tuned(graph, part.nodes[0]):
        return None
    record = records.find(_task(graph, part.nodes, machine))
    if record is None:
        return None
    tiles = tiles_of(_sums(graph, part), _default(graph, part))
    found = next((tile for tile in tiles if point_of(tile) == dict(record.point)), None)
    if found is None:
        raise InputError(
            f"A record's point must be one of the template's {len(tiles)}, and "
            f"{dict(record.point)} is none: delete the record, or tune again."
        )
    return found


def _is_tuned(graph: Graph, node: Node) -> bool:
    """Tell whether an operator's tiles are a search space: not those of channels in groups."""
    if not takes_tiles(graph, node) or node.op == "depthwise_conv2d":
        return False
    x, weight, *_ = graph.input_tensors(node)
    return node.op != "conv2d" or x.shape[3] == weight.shape[3]


def _sums(graph: Graph, part: Part) -> Sums:
    head = part.nodes[0]
    shape = graph.output_tensor(head).shape
    if head.op == "conv2d":
        _, rows, columns, _ = graph.input_tensors(head)[1].shape
        return ConvolutionSums(
            output=shape,
            window=(rows, columns),
            strides=head.attrs["strides"],
            dilation=head.attrs["dilation"],
            terms=_terms(part),
        )
    *lead, rows, columns = shape
    return ProductSums(batch=prod(lead), rows=rows, columns=columns, terms=_terms(part))


def _default(graph: Graph, part: Part) -> Tile:
    return default_tile(graph, part.nodes[0], _terms(part))


def _terms(part: Part) -> int:
    stages = create_schedule(part.output).stages
    (total,) = [stage for stage in stages if isinstance(stage.body, Reduce)]
    return terms_of(total)


def _task(graph: Graph, nodes: Sequence[Node], machine: GpuMachine) -> Task:
    """Return the key of the records of an operator, which knows its constants from its inputs."""
    shape = shape_of(graph, nodes)
    shape["constant"] = [tensor.is_constant for tensor in graph.input_tensors(nodes[0])]
    target = {"kind": machine.kind, "device": machine.device}
    return Task(f"gpu.{nodes[0].op}", TEMPLATE_VERSION, shape, target)


def _restored(
    tensors: Sequence[Tensor],
    nodes: Sequence[Node],
    spreads: Mapping[str, float],
    machine: GpuMachine,
) -> GpuTemplate:
    return GpuTemplate(Fragment.drawn(tensors, nodes, spreads), machine)
