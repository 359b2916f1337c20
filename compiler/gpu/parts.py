"""Fused groups of a graph as tensor expressions, and the kernels that compute them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.cpu.define.elementwise import ELEMENTWISE
from vdla.compiler.cpu.winograd import Algorithm
from vdla.compiler.graph import Graph, Node
from vdla.compiler.passes.groups import fusion_groups
from vdla.compiler.targets.gpu import CUDA, OPENCL, Kernel, build_kernel, source_of
from vdla.errors import LoweringError

from .elements import schedule_elements
from .part import Part
from .reductions import schedule_reduction
from .stages import cut
from .template import takes_tiles, tiled_kernel, tiled_part, warp_product
from .tiles import Tile
from .winograd import (
    WinogradPart,
    takes_winograd_kernels,
    winograd_kernels,
    winograd_part,
)

__all__ = ["Step", "graph_parts", "part_kernels"]

_ON_A_TILE = {*ELEMENTWISE, "add", "clip", "relu", "relu6"}
"""Operators that make each element of one: computed on the tile that was just summed up."""


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel of a part, and the tensors that it is given: what it writes is the last."""

    kernel: Kernel
    tensors: tuple[te.Tensor, ...]


def graph_parts(
    graph: Graph, winograd: Algorithm | None = None, *, matrices: bool = False
) -> Iterator[Part]:
    """Yield the parts of a graph, in an order in which they can run.

    Operators are fused by their classes; what follows a product or a convolution that has a
    template is fused as long as it is computed on each element of its tile.

    Parameters
    ----------
    graph : Graph
    winograd : Algorithm, optional
        For the convolutions that it computes.
    matrices : bool
        Whether warps may multiply matrices; what they take, Winograd's algorithms do not.

    Raises
    ------
    LoweringError
        An operator has no definition for its tensors.
    """
    for group in fusion_groups(graph):
        for nodes in _split(graph, group.nodes):
            part = tiled_part(graph, nodes, matrices=matrices)
            by_warps = matrices and warp_product(part) is not None
            if winograd and not by_warps and takes_winograd_kernels(graph, nodes[0]):
                part = winograd_part(graph, nodes, winograd)
            yield part


def _split(graph: Graph, nodes: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    head, *rest = nodes
    if not takes_tiles(graph, head):
        yield nodes
        return
    shape = graph.output_tensor(head).shape
    end = 1
    for node in rest:
        if node.op not in _ON_A_TILE or graph.output_tensor(node).shape != shape:
            break
        end += 1
    yield nodes[:end]
    if end < len(nodes):
        yield nodes[end:]


def part_kernels(
    graph: Graph,
    part: Part,
    name: str,
    tile: Tile | None = None,
    *,
    matrices: bool = False,
    virtual: bool = True,
) -> tuple[Step, ...]:
    """Return the kernels of a part, in order: by a template, or one a stage.

    Parameters
    ----------
    graph : Graph
    part : Part
        Of the graph.
    name : str
        Of the kernels, which are numbered where there are several.
    tile : Tile, optional
        How what the template computes is shared out; by rules if it is left out.
    matrices : bool
        Whether warps may multiply matrices, in kernels that are CUDA C then.
    virtual : bool
        Whether the template may use virtual threads.

    Raises
    ------
    LoweringError
        A kernel cannot be made of a stage, or no source of it; the error names the operators.
    """
    try:
        steps = _kernels(graph, part, name, tile, matrices=matrices, virtual=virtual)
        for step in steps:
            source_of(step.kernel, CUDA if matrices else OPENCL)
        return steps
    except LoweringError as error:
        names = ", ".join(f"{node.op} {node.name!r}" for node in part.nodes)
        raise LoweringError(f"No kernel can be made of {names}: {error}") from error


def _kernels(
    graph: Graph, part: Part, name: str, tile: Tile | None, *, matrices: bool, virtual: bool
) -> tuple[Step, ...]:
    if isinstance(part, WinogradPart):
        return tuple(Step(*one) for one in winograd_kernels(part, name))
    head = part.nodes[0]
    if takes_tiles(graph, head):
        made = tiled_kernel(graph, part, name, tile, matrices=matrices, virtual=virtual)
        return (Step(*made),)
    steps = []
    stages = cut(part.output)
    for number, stage in enumerate(stages):
        called = name if len(stages) == 1 else f"{name}_{number}"
        schedule = schedule_reduction(stage.output) or schedule_elements(stage.output)
        kernel = build_kernel(called, schedule, (*stage.inputs, *schedule.outputs))
        steps.append(Step(kernel, (*stage.inputs.values(), stage.of)))
    return tuple(steps)
