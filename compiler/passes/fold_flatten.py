"""Dense layers that read an image as it lies."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.graph import Graph, Node

__all__ = ["fold_flatten"]


def fold_flatten(graph: Graph) -> Graph:
    """Let dense layers flatten an image themselves, so that its blocks need no copy.

    Before: ``reshape x (1, 7, 7, 512) to f (1, 25088); dense f``. After: ``dense x``.
    """
    nodes = [_flattening(graph, node) for node in graph.nodes]
    read = {name for node in nodes for name in node.inputs} | set(graph.outputs)
    kept = [node for node in nodes if node.op != "reshape" or node.outputs[0] in read]
    return Graph(graph.name, graph.tensors, kept, graph.inputs, graph.outputs)


def _flattening(graph: Graph, node: Node) -> Node:
    if node.op != "dense" or node.attrs["keep_dims"]:
        return node
    source = graph.producer(node.inputs[0])
    if source is None or source.op != "reshape":
        return node
    image, flat = graph.input_tensors(source)[0], graph.output_tensor(source)
    if len(image.shape) != 4 or flat.shape != (1, image.size):
        return node
    if image.shape[:3] == (1, 1, 1):  # a view, which costs nothing
        return node
    return replace(node, inputs=(image.name, *node.inputs[1:]))
