"""Writing graphs as ONNX models."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
from onnx import helper

import vdla
from vdla.compiler.graph import Graph, Tensor
from vdla.errors import ModelError

from .export_ops import WRITERS
from .writer import Writer

__all__ = ["OPSET", "export_onnx"]

OPSET = 18
"""The first whose reductions all take their axes as an input, and one that every runtime reads."""
_IR_VERSION = 8
"""The file format of that opset's time."""


def export_onnx(graph: Graph, path: str | Path | None = None) -> onnx.ModelProto:
    """Return a graph as an ONNX model, and write it.

    Inputs and outputs keep names, shapes and types; inside, images are NCHW, between transposes
    where the layout changes. A quantized operator becomes a float one between DequantizeLinear and
    QuantizeLinear; its weights are integers behind a DequantizeLinear with a scale for each
    channel, its bias int32. The rounding of a requantization has no form in ONNX: a runtime may
    give neighbours of our integers.

    Before: ``conv2d (int8)``. After: ``DequantizeLinear, Conv, Relu, QuantizeLinear``.

    Parameters
    ----------
    graph : Graph
    path : path, optional
        File to write.

    Raises
    ------
    ModelError
        Operators have no form in ONNX: all are listed. Or the file cannot be written.
    """
    unknown = Counter(node.op for node in graph.nodes if node.op not in WRITERS)
    if unknown:
        counts = ", ".join(f"{op} ({count})" for op, count in sorted(unknown.items()))
        raise ModelError(
            f"Every operator must have a form in ONNX; {graph.name!r} holds others (count): "
            f"{counts}. Export the graph before it is laid out for the accelerator."
        )
    writer = Writer(graph)
    for name in graph.inputs:
        writer.alias(graph.tensors[name], name)
    for node in graph.nodes:
        WRITERS[node.op](writer, node)
    made = helper.make_graph(
        writer.finish(),
        graph.name,
        [_info(graph.tensors[name]) for name in graph.inputs],
        [_info(graph.tensors[name]) for name in graph.outputs],
        writer.initializers,
    )
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="vdla",
        producer_version=vdla.__version__,
    )
    if path is not None:
        _write(model, Path(path))
    return model


def _info(tensor: Tensor) -> onnx.ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(tensor.dtype)
    return helper.make_tensor_value_info(tensor.name, code, tensor.shape)


def _write(model: onnx.ModelProto, path: Path) -> None:
    try:
        path.write_bytes(model.SerializeToString())
    except OSError as error:
        raise ModelError(
            f"A model must go to a folder that can be written: {path}: {error.strerror}. "
            "Name another one."
        ) from None
    except ValueError as error:  # protobuf's limit
        raise ModelError(
            f"A model must take less than 2 GiB; {path} would not: {error}. Export a smaller one."
        ) from None
