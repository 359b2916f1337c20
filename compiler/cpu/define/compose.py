"""Operators of a graph one after the other as tensor expressions, over what they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.compiler import te
from vdla.compiler.graph import Graph, Node

__all__ = ["compose"]


def compose(
    graph: Graph,
    nodes: Sequence[Node],
    defined: Callable[[Node, list[te.Tensor]], te.Tensor],
) -> tuple[dict[str, te.Tensor], te.Tensor]:
    """Return placeholders of what operators read from outside, by name, and the last one's tensor.

    Parameters
    ----------
    graph : Graph
    nodes : sequence of Node
        In order; each reads constants, others before it, or what comes from outside.
    defined : callable
        Takes an operator and the tensors of its operands that are no constants, and returns its
        own.
    """
    made: dict[str, te.Tensor] = {}
    inputs: dict[str, te.Tensor] = {}
    for node in nodes:
        operands = []
        for tensor in graph.input_tensors(node):
            if tensor.is_constant:
                continue
            if tensor.name not in made:
                given = te.placeholder(tensor.shape, str(tensor.dtype), tensor.name)
                made[tensor.name] = inputs[tensor.name] = given
            operands.append(made[tensor.name])
        made[node.outputs[0]] = defined(node, operands)
    return inputs, made[nodes[-1].outputs[0]]
