"""The network's tensors and layers as the module file holds them."""

from __future__ import annotations

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.module import Layer, TensorInfo

from .host import host_params
from .placement import VDLA

__all__ = ["describe_layer", "describe_tensor"]


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


def describe_layer(
    graph: Graph, node: Node, device: str, *, macs: int, fused_into: str = ""
) -> Layer:
    """Return a node as the module holds it, with the integer parameters that numpy needs."""
    return Layer(
        name=node.name,
        op=node.op,
        inputs=node.inputs,
        outputs=node.outputs,
        attrs=dict(node.attrs),
        device=device,
        macs=macs,
        fused_into=fused_into,
        params={} if device == VDLA else host_params(graph, node),
    )
