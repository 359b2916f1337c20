"""Folding activation functions into the operators before them."""

from __future__ import annotations

from vdla.compiler.graph import OPS, Graph, Node

__all__ = ["fuse_activations"]

_CLIPS = ("clip", "relu", "relu6")


def fuse_activations(graph: Graph) -> Graph:
    """Fold relu, relu6 and clip into the operator that alone feeds them.

    Before::

        conv2d[clip (-inf, inf)] -> conv.out (1, 8, 8, 16) -> relu[clip (0, inf)] -> relu.out

    After::

        conv2d[clip (0, inf)] -> relu.out (1, 8, 8, 16)

    The range of conv.out below zero then costs no code of the 256.
    """
    nodes: dict[str, Node] = {}
    makers: dict[str, str] = {}
    for node in graph.nodes:
        source = nodes.get(makers.get(node.inputs[0], "")) if node.inputs else None
        if source is not None and _fuses(graph, source, node):
            (low, high), (least, most) = source.attrs["clip"], node.attrs["clip"]
            attrs = {**source.attrs, "clip": (max(low, least), min(high, most))}
            fused = Node(source.name, source.op, source.inputs, node.outputs, attrs)
        else:
            fused = node
        nodes[fused.name] = fused
        makers[fused.outputs[0]] = fused.name
    used = {t for node in nodes.values() for t in (*node.inputs, *node.outputs)}
    kept = [t for t in graph.tensors.values() if t.name in used | set(graph.inputs)]
    return Graph(graph.name, kept, list(nodes.values()), graph.inputs, graph.outputs)


def _fuses(graph: Graph, source: Node, node: Node) -> bool:
    between = source.outputs[0]
    if node.op not in _CLIPS or "clip" not in OPS[source.op].attrs or between in graph.outputs:
        return False
    if graph.tensors[between].dtype != graph.output_tensor(node).dtype:
        return False
    (low, high), (least, most) = source.attrs["clip"], node.attrs["clip"]
    return len(graph.consumers(between)) == 1 and max(low, least) <= min(high, most)
