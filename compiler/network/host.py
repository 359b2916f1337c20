"""What the host's processor takes, and the integers it computes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from vdla.compiler.graph import OPS, Graph, Node
from vdla.compiler.graph.quantization import (
    add_params,
    conv_params,
    mean_params,
    pool_params,
    rescale_params,
)
from vdla.errors import ModelError

__all__ = ["HOST_DTYPES", "host_params", "host_refusal"]

HOST_DTYPES = ("int8", "uint8", "float32")
"""Types of the activations that the host's kernels compute on."""

_SCALE_FREE = frozenset({"pad", "reshape", "space_to_depth", "unfold"})
"""Operators that move integers without a need to know what they stand for."""

_PARAMS: Mapping[str, Callable[[Graph, Node], Any]] = {
    "add": add_params,
    "avg_pool2d": pool_params,
    "conv2d": conv_params,
    "dense": conv_params,
    "depthwise_conv2d": conv_params,
    "max_pool2d": pool_params,
    "mean": mean_params,
    "quantize": rescale_params,
    "relu": rescale_params,
    "relu6": rescale_params,
}
"""Integer parameters of the operators that have some."""


def host_params(graph: Graph, node: Node) -> dict[str, Any]:
    """Return the integer parameters of an operator by name; none for a float operator.

    Raises
    ------
    ModelError
        They cannot be derived.
    """
    tensors = (graph.input_tensors(node)[0], graph.output_tensor(node))
    if node.op not in _PARAMS or any(t.dtype.kind == "f" for t in tensors):
        return {}
    params = _PARAMS[node.op](graph, node)
    return {f.name: getattr(params, f.name) for f in fields(params)}


def host_refusal(graph: Graph, node: Node) -> str | None:
    """Return why the host cannot run `node`, None where it can."""
    inputs, output = graph.input_tensors(node), graph.output_tensor(node)
    for tensor in (*inputs, output):
        if tensor.is_constant:
            continue
        if str(tensor.dtype) not in HOST_DTYPES:
            return f"{tensor.label} is {tensor.dtype}, not one of {', '.join(HOST_DTYPES)}"
        if tensor.shape[:1] != (1,):
            return f"{tensor.label} has the shape {tensor.shape}, which is not a batch of 1"
    for role, tensor in zip(OPS[node.op].inputs[1:], inputs[1:], strict=False):
        if role in ("weight", "bias") and not tensor.is_constant:
            return f"its {role} {tensor.label} is computed, not constant"
    if node.op not in _SCALE_FREE:
        for tensor in (*inputs[:2], output):
            if tensor.dtype.kind in "iu" and tensor.quant is None:
                return f"{tensor.label} is {tensor.dtype} without scale and zero point"
    try:
        host_params(graph, node)
    except ModelError as error:
        return str(error)
    return None
