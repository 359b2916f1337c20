"""Operator fusion: which operators may be computed as one, by their four classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler.graph import OPS, FusionClass, Graph, Node

__all__ = ["Group", "fusion_groups"]

_TAKES_CONSUMERS = (FusionClass.INJECTIVE, FusionClass.COMPLEX_OUT_FUSABLE)
"""Classes of groups onto whose output an injective operator fuses."""


@dataclass(frozen=True, eq=False)
class Group:
    """Operators that may be computed as one.

    Attributes
    ----------
    nodes : tuple of Node
        In order; only the last one's output is read outside.
    fusion : FusionClass
        Of the group as a whole.
    """

    nodes: tuple[Node, ...]
    fusion: FusionClass

    @property
    def last(self) -> Node:
        """The operator whose output is the group's."""
        return self.nodes[-1]


def fusion_groups(graph: Graph) -> tuple[Group, ...]:
    """Return the operators of a graph in groups, in an order in which they can run.

    Injective operators fuse with each other, a reduction with the injective operators that feed
    it, a complex-out-fusable operator with the injective ones that follow it; an opaque operator
    stays alone. What another operator or the caller reads as well must be made, so it ends its
    group. An operator of several inputs joins the group that is computed last, when all its other
    inputs are there. Source: the four categories of the TVM paper, section 3.

    Before: ``conv a; conv b; add c = a + b; relu d = c; softmax e``. After: ``[a], [b, c, d],
    [e]``.
    """
    groups: list[Group] = []
    for node in graph.nodes:
        own = OPS[node.op].fusion
        at = _joined(graph, node, own, groups)
        if at is None:
            groups.append(Group((node,), own))
            continue
        before = groups.pop(at)
        heavier = before.fusion if own is FusionClass.INJECTIVE else own
        groups.append(Group((*before.nodes, node), heavier))
    return tuple(groups)


def _joined(graph: Graph, node: Node, own: FusionClass, groups: list[Group]) -> int | None:
    """Return the place of the group that a node joins; it moves to the end with the node."""
    if own is FusionClass.INJECTIVE:
        takes: tuple[FusionClass, ...] = _TAKES_CONSUMERS
    elif own is FusionClass.REDUCTION:
        takes = (FusionClass.INJECTIVE,)
    else:
        return None
    places = _places(groups)
    feeding = [places[t] for t in node.inputs if t in places]
    if not feeding:
        return None
    at = max(feeding)
    group = groups[at]
    output = group.last.outputs[0]
    alone = [n.name for n in graph.consumers(output)] == [node.name] and (
        output not in graph.outputs
    )
    return at if alone and output in node.inputs and group.fusion in takes else None


def _places(groups: list[Group]) -> Mapping[str, int]:
    return {t: place for place, group in enumerate(groups) for n in group.nodes for t in n.outputs}
