"""The topologies that the ``onnx`` package ships for its tests, with weights drawn here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

__all__ = ["TOPOLOGIES", "drawn_model", "scale_scores", "scores_of"]

Array = npt.NDArray[Any]

TOPOLOGIES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_SCORES_DEVIATION = 2.0
_MOVES = ("Reshape", "Unsqueeze")
_PRODUCTS = ("Conv", "Gemm")
_SCALES = ("Add", "BatchNormalization", "Mul")


def drawn_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """Return one of onnx's light models with weights drawn in the place of its constant ones.

    Weights are normal with a variance of 2 / fan-in where a ReLU follows (He et al., "Delving deep
    into rectifiers", 2015) and of 1 / fan-in elsewhere, scales and variances uniform in 0.5..1.5,
    biases and means normal with a deviation of 0.1.

    Parameters
    ----------
    name : str
        One of `TOPOLOGIES`.
    seed : int

    Returns
    -------
    onnx.ModelProto
        Its weights are initializers, and its inputs images alone.
    """
    model = onnx.load(_FOLDER / f"light_{name}.onnx")
    graph, source = model.graph, np.random.default_rng(seed)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {n: values for n, values in stored.items() if values.dtype == np.float32}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            weights[node.output[0]] = np.empty(stored[node.input[0]], np.float32)
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    read = {name for node in nodes for name in node.input}
    kept = {n: values for n, values in stored.items() if n in read and n not in weights}
    drawn = {n: _draw(nodes, n, weights[n].shape, source) for n in weights if n in read}
    made = helper.make_graph(
        nodes,
        name,
        [value for value in graph.input if value.name not in stored],
        list(graph.output),
        [numpy_helper.from_array(values, n) for n, values in {**kept, **drawn}.items()],
    )
    return helper.make_model(made, opset_imports=list(model.opset_import), ir_version=8)


def scores_of(model: onnx.ModelProto) -> str:
    """Return the value that a softmax at the end reads; the output where there is none."""
    output: str = model.graph.output[0].name
    last = _maker(model, output)
    return str(last.input[0]) if last is not None and last.op_type == "Softmax" else output


def scale_scores(model: onnx.ModelProto, scores: Array) -> None:
    """Scale the last layer's weights so that scores which it gave deviate by 2.

    Signals grow along residual connections; a softmax would tell one class from all others, and
    nothing else.

    Parameters
    ----------
    model : onnx.ModelProto
        Of `drawn_model`; changed in place.
    scores : array
        What `scores_of` was for a typical image.
    """
    node = next(n for n in reversed(model.graph.node) if n.op_type in _PRODUCTS)
    factor = np.float32(_SCORES_DEVIATION / scores.std())
    for name in node.input[1:]:
        while (maker := _maker(model, name)) is not None:
            name = maker.input[0]
        tensor = next(t for t in model.graph.initializer if t.name == name)
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * factor, name))


def _maker(model: onnx.ModelProto, name: str) -> onnx.NodeProto | None:
    return next((node for node in model.graph.node if name in node.output), None)


def _draw(
    nodes: list[onnx.NodeProto], name: str, shape: tuple[int, ...], source: np.random.Generator
) -> Array:
    node, place = _use(nodes, name)
    product = node.op_type in _PRODUCTS
    if product and place == 1:
        turned = node.op_type == "Conv" or _attribute(node, "transB")
        fan_in = int(np.prod(shape[1:])) if node.op_type == "Conv" else shape[-1 if turned else -2]
        values = source.standard_normal(shape, np.float32)
        values *= np.float32(((2 if _rectified(nodes, node) else 1) / fan_in) ** 0.5)
        return values
    scale = node.op_type == "Mul" or (node.op_type == "BatchNormalization" and place in (1, 4))
    if scale:
        return source.uniform(0.5, 1.5, shape).astype(np.float32)
    return source.normal(0, 0.1, shape).astype(np.float32)


def _use(nodes: list[onnx.NodeProto], name: str) -> tuple[onnx.NodeProto, int]:
    """Return the first operator that computes with a constant, and as which input."""
    for node in nodes:
        if name in node.input:
            if node.op_type in _MOVES:
                return _use(nodes, node.output[0])
            return node, list(node.input).index(name)
    raise LookupError(f"nothing reads {name}")


def _rectified(nodes: list[onnx.NodeProto], node: onnx.NodeProto) -> bool:
    """Whether what a layer makes, scaled and shifted by constants, goes through a ReLU."""
    readers = [n for n in nodes if node.output[0] in n.input]
    if len(readers) != 1:
        return False
    (reader,) = readers
    return reader.op_type == "Relu" or (reader.op_type in _SCALES and _rectified(nodes, reader))


def _attribute(node: onnx.NodeProto, name: str) -> int:
    return next((a.i for a in node.attribute if a.name == name), 0)
