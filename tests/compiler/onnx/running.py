"""Running graphs and models, and onnx's light models with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

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


def light(name: str, seed: int = 0) -> onnx.ModelProto:
    """Return one of onnx's light models with random weights in the place of its constant ones."""
    model = onnx.load(DATA / "light" / f"light_{name}.onnx")
    graph = model.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    source = np.random.default_rng(seed)
    nodes, weights = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        shape = tuple(int(d) for d in shapes.pop(node.input[0]))
        fan_in = max(1, int(np.prod(shape[1:])))
        # A vector serves as bias, mean, scale or variance: positive, and near 1.
        drawn = (
            source.normal(0, fan_in**-0.5, shape)
            if len(shape) > 1
            else source.uniform(0.5, 1.5, shape)
        )
        weights.append(numpy_helper.from_array(drawn.astype(np.float32), node.output[0]))
    weights += [t for t in graph.initializer if t.name in shapes]
    kept = [v for v in graph.input if v.name not in {t.name for t in graph.initializer}]
    made = helper.make_graph(nodes, graph.name, kept, list(graph.output), weights)
    return helper.make_model(made, opset_imports=list(model.opset_import), ir_version=8)


def onnxruntime_outputs(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return what onnxruntime makes of some inputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def exposed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that gives every value that a node computes."""
    every = onnx.ModelProto()
    every.CopyFrom(model)
    there = {output.name for output in every.graph.output}
    made = [name for node in every.graph.node for name in node.output if name]
    # Their types are onnxruntime's to infer, for operators that onnx does not know too.
    every.graph.output.extend(onnx.ValueInfoProto(name=n) for n in made if n not in there)
    return every


def node_output(graph: Graph, node: Node, values: Mapping[str, Array]) -> Array:
    """Run one node by the interpreter's definition of it."""
    operands = []
    for tensor in graph.input_tensors(node):
        array = values[tensor.name] if tensor.data is None else tensor.data
        operands.append(Value(tensor, array))
    return OPERATORS[node.op](node, operands, graph.output_tensor(node))
