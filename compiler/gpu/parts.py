"""Fused groups of a graph as tensor expressions, and the kernels that compute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.cpu.define import define
from vdla.compiler.cpu.define.elementwise import ELEMENTWISE
from vdla.compiler.cpu.define.site import Array
from vdla.compiler.graph import Graph, Node
from vdla.compiler.passes.groups import fusion_groups
from vdla.compiler.targets.gpu import Kernel, build_kernel, source_of
from vdla.errors import LoweringError

from .elements import schedule_elements
from .stages import cut
from .template import takes_tiles, tiled_schedule

__all__ = ["Part", "Step", "graph_parts", "part_kernels"]

_ON_A_TILE = {*ELEMENTWISE, "add", "clip", "relu", "relu6"}
"""Operators that make each element of one: computed on the tile that was just summed up."""


@dataclass(frozen=True, eq=False)
class Part:
    """Operators that are computed at once.

    Attributes
    ----------
    nodes : tuple of Node
    inputs : mapping of te.Tensor to str
        Placeholders, and the graph's tensors that they stand for.
    constants : mapping of te.Tensor to array
        Other placeholders, and what to bind to each.
    output : te.Tensor
        Of the last node.
    """

    nodes: tuple[Node, ...]
    inputs: Mapping[te.Tensor, str]
    constants: Mapping[te.Tensor, Array]
    output: te.Tensor


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel of a part, and the tensors that it is given: what it writes is the last."""

    kernel: Kernel
    tensors: tuple[te.Tensor, ...]


def graph_parts(graph: Graph) -> Iterator[Part]:
    """Yield the parts of a graph, in an order in which they can run.

    Operators are fused by their classes; what follows a product or a convolution that has a
    template is fused as long as it is computed on each element of its tile.

    Raises
    ------
    LoweringError
        An operator has no definition for its tensors.
    """
    for group in fusion_groups(graph):
        for nodes in _split(graph, group.nodes):
            yield _composed(graph, nodes)


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


def _composed(graph: Graph, nodes: tuple[Node, ...]) -> Part:
    made: dict[str, te.Tensor] = {}
    inputs: dict[te.Tensor, str] = {}
    constants: dict[te.Tensor, Array] = {}
    for node in nodes:
        operands = []
        for tensor in graph.input_tensors(node):
            if tensor.is_constant:
                continue
            if tensor.name not in made:
                given = te.placeholder(tensor.shape, str(tensor.dtype), tensor.name)
                made[tensor.name], inputs[given] = given, tensor.name
            operands.append(made[tensor.name])
        definition = define(graph, node, operands)
        made[node.outputs[0]] = definition.output
        constants.update(definition.constants)
    return Part(nodes, inputs, constants, made[nodes[-1].outputs[0]])


def part_kernels(graph: Graph, part: Part, name: str) -> tuple[Step, ...]:
    """Return the kernels of a part, in order: one by a template, or one a stage.

    Parameters
    ----------
    graph : Graph
    part : Part
        Of the graph.
    name : str
        Of the kernels, which are numbered where there are several.

    Raises
    ------
    LoweringError
        A kernel cannot be made of a stage, or no source of it; the error names the operators.
    """
    try:
        steps = _kernels(graph, part, name)
        for step in steps:
            source_of(step.kernel)
        return steps
    except LoweringError as error:
        names = ", ".join(f"{node.op} {node.name!r}" for node in part.nodes)
        raise LoweringError(f"No kernel can be made of {names}: {error}") from error


def _kernels(graph: Graph, part: Part, name: str) -> tuple[Step, ...]:
    head = part.nodes[0]
    if takes_tiles(graph, head):
        schedule = tiled_schedule(graph, head, part.output)
        read = {tensor for stage in schedule.stages for tensor in stage.reads()}
        given = [t for t in (*part.inputs, *part.constants) if t in read]
        args = (*given, part.output)
        return (Step(build_kernel(name, schedule, args), args),)
    steps = []
    stages = cut(part.output)
    for number, stage in enumerate(stages):
        called = name if len(stages) == 1 else f"{name}_{number}"
        schedule = schedule_elements(stage.output)
        kernel = build_kernel(called, schedule, (*stage.inputs, stage.output))
        steps.append(Step(kernel, (*stage.inputs.values(), stage.of)))
    return tuple(steps)
