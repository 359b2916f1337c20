"""Leaving out what nobody reads."""

from __future__ import annotations

from vdla.compiler.graph import Graph

__all__ = ["dead_code"]


def dead_code(graph: Graph) -> Graph:
    """Drop nodes whose output reaches no output of the graph.

    Before: ``a = relu(x); b = exp(x)``, output ``a``. After: ``a = relu(x)``.
    """
    wanted = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if node.outputs[0] in wanted:
            kept.append(node)
            wanted.update(node.inputs)
    names = wanted.union(graph.inputs)
    tensors = [t for name, t in graph.tensors.items() if name in names]
    return Graph(graph.name, tensors, kept[::-1], graph.inputs, graph.outputs)
