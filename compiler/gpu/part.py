"""Operators that are computed at once, as tensor expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.cpu.define import define
from vdla.compiler.cpu.define.compose import compose
from vdla.compiler.cpu.define.site import Array, Site
from vdla.compiler.graph import Graph, Node

__all__ = ["Part", "composed_part", "part_of"]


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


def part_of(
    graph: Graph, nodes: tuple[Node, ...], head: Callable[[Site], te.Tensor] | None = None
) -> Part:
    """Return operators by the definitions that the processor's back end has.

    Parameters
    ----------
    graph : Graph
    nodes : tuple of Node
        Of the graph.
    head : callable, optional
        The definition of the first of them that its template wants.

    Raises
    ------
    LoweringError
        An operator has no definition for its tensors.
    """
    constants: dict[te.Tensor, Array] = {}

    def defined(node: Node, operands: list[te.Tensor]) -> te.Tensor:
        if node is nodes[0] and head is not None:
            site = Site(graph, node, operands)
            output = head(site)
            constants.update(site.constants)
            return output
        definition = define(graph, node, operands)
        constants.update(definition.constants)
        return definition.output

    return composed_part(graph, nodes, defined, constants)


def composed_part(
    graph: Graph,
    nodes: tuple[Node, ...],
    defined: Callable[[Node, list[te.Tensor]], te.Tensor],
    constants: Mapping[te.Tensor, Array],
) -> Part:
    """Return operators by definitions of one's own, which fill the constants."""
    inputs, output = compose(graph, nodes, defined)
    return Part(nodes, {given: name for name, given in inputs.items()}, constants, output)
