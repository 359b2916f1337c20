"""A fused group as a kernel: its tensor expressions composed, and its schedule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te.expr import Reduce

from .choice import MATRICES, PAIRS, QUADS, Choice
from .defaults import default_choice
from .define import DEFINITIONS
from .define.compose import compose
from .define.site import Array, Constants, Site
from .direct import direct_convolution, takes_direct
from .dots import dot_convolution
from .matrix import matrix_convolution
from .schedule import default_schedule
from .tuned import Tuned
from .winograd import ALGORITHMS, winograd_convolution

__all__ = ["GroupKernel", "group_kernel", "head_of", "split_group"]


@dataclass(frozen=True, eq=False)
class GroupKernel:
    """A group, ready to be lowered.

    Attributes
    ----------
    schedule : te.Schedule
    inputs : mapping of str to te.Tensor
        Placeholders of the graph's tensors that the group reads.
    constants : mapping of te.Tensor to array
        Other placeholders, and what to bind to each.
    output : te.Tensor
        Of the group's last node.
    """

    schedule: te.Schedule
    inputs: Mapping[str, te.Tensor]
    constants: Mapping[te.Tensor, Array]
    output: te.Tensor


def split_group(graph: Graph, nodes: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Yield the parts of a fused group that are computed at once.

    What follows a convolution is computed on its tile only while it keeps the tile's dimensions;
    the rest of the group, such as a transposition, is computed after it.
    """
    heads = [k for k, node in enumerate(nodes) if head_of(graph, node) is not None]
    if not heads:
        yield nodes
        return
    (head,) = heads
    if head:
        yield nodes[:head]
    shape = graph.output_tensor(nodes[head]).shape
    end = head + 1
    while end < len(nodes) and graph.output_tensor(nodes[end]).shape == shape:
        end += 1
    yield nodes[head:end]
    if end < len(nodes):
        yield nodes[end:]


def head_of(graph: Graph, node: Node) -> Site | None:
    """Return a node as the head of a part that is tuned, None where it is not."""
    site = Site(graph, node, _placeholders(graph, node))
    return site if takes_direct(site) else None


def _placeholders(graph: Graph, node: Node) -> list[te.Tensor]:
    return [
        te.placeholder(tensor.shape, str(tensor.dtype), tensor.name)
        for tensor in graph.input_tensors(node)
        if not tensor.is_constant
    ]


def group_kernel(
    graph: Graph,
    nodes: tuple[Node, ...],
    target: Target,
    without: Collection[str] = (),
    choice: Choice | None = None,
) -> GroupKernel:
    """Return the tensor expressions of a part of a group and their schedule.

    A convolution at its head is tuned: what follows it is computed on the tile that it has just
    summed. Everything else runs by the default schedule.

    Parameters
    ----------
    graph : Graph
    nodes : tuple of Node
    target : Target
    without : collection of str
        Keys of `vdla.compiler.cpu.pipeline.STEPS` to leave out.
    choice : Choice, optional
        How a convolution at the head is computed; by rules if it is left out.
    """
    constants = Constants()
    tuned: Tuned | None = None

    def defined(node: Node, operands: list[te.Tensor]) -> te.Tensor:
        nonlocal tuned
        site = Site(graph, node, operands)
        if "layout" not in without and takes_direct(site):
            tuned = _tuned(site, target, choice or default_choice(site, target, without))
            output = tuned.output
        else:
            output = DEFINITIONS[node.op](site)
        constants.take(site.constants)
        return output

    inputs, final = compose(graph, nodes, defined)
    schedule = _tuned_schedule(tuned, final) or default_schedule(final, target)
    return GroupKernel(schedule, inputs, constants, final)


def _tuned(site: Site, target: Target, choice: Choice) -> Tuned:
    if choice.algorithm in ALGORITHMS:
        return winograd_convolution(site, target, choice)
    if choice.algorithm == MATRICES:
        return matrix_convolution(site, target, choice)
    if choice.algorithm in (PAIRS, QUADS):
        return dot_convolution(site, target, choice)
    return direct_convolution(site, target, choice)


def _tuned_schedule(tuned: Tuned | None, final: te.Tensor) -> te.Schedule | None:
    if tuned is None:
        return None
    schedule = te.create_schedule(final)
    for stage in schedule.stages:
        if stage.tensor is final or stage.tensor in tuned.stages:
            continue
        if isinstance(stage.body, Reduce):
            return None
        stage.compute_inline()
    tuned.schedule(schedule, final)
    return schedule
