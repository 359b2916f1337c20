"""The definition of every operator of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.graph import Graph, Node
from vdla.errors import LoweringError

from . import movement, pooling, products, quantized, reductions, windows
from .elementwise import ELEMENTWISE
from .resizing import resize
from .site import Array, Site

__all__ = ["DEFINITIONS", "Definition", "define"]


DEFINITIONS: Mapping[str, Callable[[Site], te.Tensor]] = {
    **ELEMENTWISE,
    "add": quantized.add,
    "avg_pool2d": pooling.avg_pool2d,
    "clip": quantized.rescale,
    "concat": movement.concat,
    "conv2d": windows.conv2d,
    "conv_transpose2d": windows.conv_transpose2d,
    "dense": products.dense,
    "depthwise_conv2d": windows.depthwise_conv2d,
    "dequantize": quantized.dequantize,
    "expand": movement.expand,
    "gather": movement.gather,
    "leaky_relu": quantized.leaky_relu,
    "lrn": reductions.lrn,
    "matmul": products.matmul,
    "max_pool2d": pooling.max_pool2d,
    "mean": reductions.mean,
    "pad": movement.pad,
    "quantize": quantized.quantize,
    "reduce_max": reductions.reduce_max,
    "reduce_sum": reductions.reduce_sum,
    "relu": quantized.rescale,
    "relu6": quantized.rescale,
    "reshape": movement.reshape,
    "resize": resize,
    "slice": movement.slice_,
    "softmax": reductions.softmax,
    "space_to_depth": movement.space_to_depth,
    "transpose": movement.transpose,
    "unfold": movement.unfold,
}
"""``(site) -> tensor expression``, by operator."""


@dataclass(frozen=True)
class Definition:
    """An operator as a tensor expression.

    Attributes
    ----------
    output : te.Tensor
        Of the shape and the dtype of the node's output; one of no dimensions has none either.
    constants : mapping of te.Tensor to array
        Placeholders beside the operands, and the array to bind to each: weights, biases, integer
        parameters, tables.
    """

    output: te.Tensor
    constants: Mapping[te.Tensor, Array]


def define(graph: Graph, node: Node, operands: Sequence[te.Tensor]) -> Definition:
    """Return a node as a tensor expression, in the graph's own layout and batch.

    Parameters
    ----------
    graph : Graph
    node : Node
        Of the graph.
    operands : sequence of te.Tensor
        Placeholders, or outputs of other definitions, one for each input that is not constant, in
        order.

    Raises
    ------
    LoweringError
        The operands are not those of the node.
    ModelError
        Its integer parameters cannot be derived.
    """
    site = Site(graph, node, operands)
    output = DEFINITIONS[node.op](site)
    if (output.shape, output.dtype) != (site.output.shape, site.dtype):
        raise LoweringError(
            f"A definition must give its node's output, {site.dtype}{list(site.output.shape)}, not "
            f"{output!r} ({node.op} node {node.name!r})."
        )
    return Definition(output, site.constants)
