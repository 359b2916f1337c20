"""Running graphs, and single nodes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

import vdla
from vdla.compiler.graph import Graph, Node
from vdla.compiler.reference.operators import OPERATORS
from vdla.compiler.reference.values import Value

Array = NDArray[Any]

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


def run_on_host(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run every node with the host's kernels, whatever the placement would be."""
    place = {node.name: "cpu" for node in graph.nodes}
    network = vdla.compile(graph, cache=False, place=place)
    return network.run(dict(inputs), device="functional").outputs


def node_output(graph: Graph, node: Node, values: Mapping[str, Array]) -> Array:
    """Run one node by the interpreter's definition of it."""
    operands = []
    for tensor in graph.input_tensors(node):
        array = values[tensor.name] if tensor.data is None else tensor.data
        operands.append(Value(tensor, array))
    return OPERATORS[node.op](node, operands, graph.output_tensor(node))
