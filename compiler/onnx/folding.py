"""What is constant in an ONNX file, computed while it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from vdla.compiler.graph.tensor import Array, Tensor
from vdla.errors import ModelError

from .node import Constant, OnnxNode, Value

__all__ = ["FOLDED_ALWAYS", "evaluate", "is_foldable"]

FOLDED_ALWAYS = frozenset({"Shape", "Size"})
"""Operators of what is known whether or not their input is constant."""

_KEPT = frozenset({"DequantizeLinear", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators of stored integers that are converted, for the integers must survive them."""


def is_foldable(node: OnnxNode, inputs: Sequence[Value | None]) -> bool:
    """Whether a node's outputs are known while reading."""
    if node.op in FOLDED_ALWAYS:
        return True
    given = [value for value in inputs if value is not None]
    if not node.is_pure or any(isinstance(value, Tensor) for value in given):
        return False
    stored = any(isinstance(value, Constant) and value.quant is not None for value in given)
    return not (node.op == "DequantizeLinear" or (stored and node.op in _KEPT))


def evaluate(node: OnnxNode, inputs: Sequence[Value | None]) -> list[Value]:
    """Return a foldable node's outputs: shapes here, the rest by onnx's reference.

    Before: ``Shape(x (1, 3, 4, 4)) -> Gather(2) -> Concat(-1)``. After: ``(4, -1)``.

    Raises
    ------
    ModelError
        The reference cannot compute it.
    """
    if node.op in FOLDED_ALWAYS:
        return [Constant(_shape(node, inputs[0]), source=node.outputs[0])]
    if node.op == "Constant" and "value" in node.attrs:
        return [Constant(np.asarray(node.attrs["value"]), source=node.outputs[0])]
    if node.op == "ConstantOfShape":
        fill: Array = np.asarray(node.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
        shape = tuple(int(d) for d in _value(inputs[0]).ravel())
        return [Constant(np.full(shape, fill[0], fill.dtype), source=node.outputs[0])]
    feeds = {name: _value(value) for name, value in zip(node.inputs, inputs, strict=True) if name}
    try:
        results = _run(node, feeds)
    except Exception as error:  # whatever the reference raises, the file is at fault
        raise ModelError(
            f"{node.label}: it is constant and cannot be computed: "
            f"{' '.join(str(error).split())[:300]}. Export the model again."
        ) from None
    return [
        Constant(np.asarray(result), source=name)
        for name, result in zip(node.outputs, results, strict=False)
    ]


def _run(node: OnnxNode, feeds: dict[str, Array]) -> list[Any]:
    infos = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    graph = onnx.helper.make_graph([node.proto], "constant", infos, outputs)
    opsets = [onnx.helper.make_opsetid("", node.opset)]
    if node.proto.domain:
        opsets.append(onnx.helper.make_opsetid(node.proto.domain, 1))
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, feeds))


def _shape(node: OnnxNode, value: Value | None) -> Array:
    if value is None:
        node.refuse("it needs an input", "Export the model again")
    if node.op == "Size":
        return np.asarray(int(np.prod(value.shape, dtype=np.int64)), np.int64)
    rank = len(value.shape)
    start, end = int(node.attrs.get("start", 0)), int(node.attrs.get("end", rank))
    return np.asarray(value.shape, np.int64)[slice(start, end)]


def _value(value: Value | None) -> Array:
    assert isinstance(value, Constant)
    return value.value
