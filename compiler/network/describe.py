"""The network's tensors and layers as the module file holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.graph.quantization import (
    add_params,
    conv_params,
    mean_params,
    pool_params,
    rescale_params,
)
from vdla.module import Layer, TensorInfo

from .placement import CPU

__all__ = ["describe_layer", "describe_tensor"]

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


def describe_tensor(tensor: Tensor) -> TensorInfo:
    """Return a tensor of the graph as the module holds it."""
    quant = tensor.quant
    return TensorInfo(
        name=tensor.name,
        shape=tensor.shape,
        dtype=str(tensor.dtype),
        scale=None if quant is None else quant.scale,
        zero_point=None if quant is None else quant.zero_point,
        axis=None if quant is None else quant.axis,
        data=tensor.data,
        source=tensor.source,
    )


def describe_layer(graph: Graph, node: Node, device: str, macs: int) -> Layer:
    """Return a node as the module holds it, with the integer parameters that the cpu needs."""
    return Layer(
        name=node.name,
        op=node.op,
        inputs=node.inputs,
        outputs=node.outputs,
        attrs=dict(node.attrs),
        device=device,
        macs=macs,
        params=_host_params(graph, node) if device == CPU else {},
    )


def _host_params(graph: Graph, node: Node) -> dict[str, Any]:
    tensors = (graph.input_tensors(node)[0], graph.output_tensor(node))
    if node.op not in _PARAMS or any(np.dtype(t.dtype).kind == "f" for t in tensors):
        return {}
    params = _PARAMS[node.op](graph, node)
    return {f.name: getattr(params, f.name) for f in fields(params)}
