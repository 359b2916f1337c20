"""What the host's processor takes, and the integers it computes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from vdla.compiler.graph import MOVEMENTS, OPS, Graph, Node, Tensor
from vdla.compiler.graph.quantization import (
    add_params,
    concat_params,
    conv_params,
    leaky_params,
    mean_params,
    pool_params,
    rescale_params,
)
from vdla.errors import ModelError

__all__ = ["HOST_DTYPES", "QUANTIZED_DTYPES", "host_params", "host_refusal"]

HOST_DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
"""Types of the tensors that the host's kernels compute on."""

QUANTIZED_DTYPES = ("int8", "uint8")
"""Types of the integers with scales that they compute on."""

_SCALE_FREE = MOVEMENTS | {"space_to_depth", "unfold"}
"""Operators that move integers, or pick one, without a need to know what they stand for."""

_PARAMS: Mapping[str, Callable[[Graph, Node], Any]] = {
    "add": add_params,
    "avg_pool2d": pool_params,
    "clip": rescale_params,
    "concat": concat_params,
    "conv2d": conv_params,
    "conv_transpose2d": conv_params,
    "dense": conv_params,
    "depthwise_conv2d": conv_params,
    "leaky_relu": leaky_params,
    "max_pool2d": pool_params,
    "mean": mean_params,
    "quantize": rescale_params,
    "relu": rescale_params,
    "relu6": rescale_params,
}
"""Integer parameters of the operators that have some."""

_NEED_SCALES = frozenset({"avg_pool2d", "dequantize", "leaky_relu", "mean", "quantize", "softmax"})
"""Operators that mean nothing on plain integers."""


def host_params(graph: Graph, node: Node) -> dict[str, Any]:
    """Return the integer parameters of an operator by name; none for floats and plain integers.

    Raises
    ------
    ModelError
        They cannot be derived.
    """
    tensors = (graph.input_tensors(node)[0], graph.output_tensor(node))
    if node.op not in _PARAMS or any(t.dtype.kind not in "iu" for t in tensors):
        return {}
    if node.op not in _NEED_SCALES and all(t.quant is None for t in tensors):
        return {}
    params = _PARAMS[node.op](graph, node)
    return {f.name: getattr(params, f.name) for f in fields(params)}


def host_refusal(graph: Graph, node: Node) -> str | None:
    """Return why the host cannot run `node`, None where it can."""
    inputs, output = graph.input_tensors(node), graph.output_tensor(node)
    for tensor in (*inputs, output):
        if str(tensor.dtype) not in HOST_DTYPES:
            return f"{tensor.label} is {tensor.dtype}, not one of {', '.join(HOST_DTYPES)}"
    for role, tensor in zip(OPS[node.op].inputs[1:], inputs[1:], strict=False):
        if role in ("weight", "bias") and output.quant is not None and not tensor.is_constant:
            return f"its {role} {tensor.label} is computed, not constant"
    reason = _integers_refused(node, inputs, output)
    if reason is not None:
        return reason
    try:
        host_params(graph, node)
    except ModelError as error:
        return str(error)
    return None


def _integers_refused(node: Node, inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Return why the integers around a node cannot be computed with, None where they can."""
    operands = inputs if OPS[node.op].variadic else inputs[:2]
    whole = [t for t in (*operands, output) if t.dtype.kind in "iu"]
    scaled = [t for t in whole if t.quant is not None]
    if node.op in _SCALE_FREE:
        return _scale_changed(node, inputs[0], output)
    if node.op == "cast" or not whole:
        return None
    if scaled or node.op in _NEED_SCALES:
        for tensor in whole:
            if tensor.quant is None:
                return f"{tensor.label} is {tensor.dtype} without scale and zero point"
    if node.op in ("quantize", "dequantize"):
        return _axes_lost(whole) if len(whole) > 1 else None
    for tensor in scaled:
        if node.op not in _PARAMS and node.op != "softmax":
            return f"{tensor.label} is quantized, and {node.op} computes on real numbers"
        if str(tensor.dtype) not in QUANTIZED_DTYPES:
            return (
                f"{tensor.label} is {tensor.dtype} with a scale, not one of "
                f"{', '.join(QUANTIZED_DTYPES)}"
            )
    weights = inputs[1:2] if OPS[node.op].inputs[1:2] == ("weight",) else ()
    return _axes_lost([t for t in scaled if t not in weights])


def _scale_changed(node: Node, data: Tensor, output: Tensor) -> str | None:
    if data.dtype.kind not in "iu":
        return None
    if node.op == "resize" and node.attrs["mode"] != "nearest":
        return f"{data.label} is {data.dtype}, and only floats are resized between elements"
    x, y = data.quant, output.quant
    if (x is None) != (y is None) or (x is not None and y is not None and not x.same_as(y)):
        return f"it must keep the scale and zero point of {data.label}"
    return None


def _axes_lost(tensors: Sequence[Tensor]) -> str | None:
    for tensor in tensors:
        if tensor.quant is not None and not tensor.quant.per_tensor:
            return f"{tensor.label} has a scale for each index, not one"
    return None
