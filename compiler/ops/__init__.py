"""Graph operators as tensor expressions with schedule templates."""

from __future__ import annotations

from vdla.compiler.graph import Graph, Node
from vdla.config import Config

from .convolution import unsupported_convolution
from .domain import DTYPES
from .elementwise import lower_elementwise, unsupported_elementwise
from .lowered import LoweredNode
from .pooling import lower_max_pool, unsupported_max_pool
from .residual import other_operand, unsupported_addition
from .scheduling import Measure, Scheduling
from .template import ConvTemplate, lower_convolution

__all__ = [
    "ConvTemplate",
    "LoweredNode",
    "Measure",
    "Scheduling",
    "lower_node",
    "other_operand",
    "unsupported",
    "unsupported_addition",
]

_CONVOLUTIONS = ("avg_pool2d", "conv2d", "dense", "depthwise_conv2d", "mean")
_ELEMENTWISE = ("add", "leaky_relu", "quantize", "relu", "relu6")


def unsupported(graph: Graph, node: Node, config: Config) -> str | None:
    """Return why the accelerator cannot take a node, or None where it can."""
    if node.op not in (*_CONVOLUTIONS, *_ELEMENTWISE, "max_pool2d"):
        return f"the accelerator has no {node.op}"
    tensors = (graph.input_tensors(node)[0], graph.output_tensor(node))
    if any(str(tensor.dtype) not in DTYPES for tensor in tensors):
        return f"its activations are not {' or '.join(DTYPES)}"
    if node.op in _CONVOLUTIONS:
        return unsupported_convolution(graph, node, config)
    if node.op in _ELEMENTWISE:
        return unsupported_elementwise(graph, node)
    return unsupported_max_pool(graph, node)


def lower_node(
    graph: Graph,
    node: Node,
    config: Config,
    scheduling: Scheduling | None = None,
    addition: Node | None = None,
) -> LoweredNode:
    """Return a node's schedule and packed constants.

    Parameters
    ----------
    graph, node
        `unsupported` gives None for the node.
    config : Config
    scheduling : Scheduling, optional
        What chooses its schedule.
    addition : Node, optional
        An addition of the node's output for which `unsupported_addition` gives None: both are
        lowered as one, whose second input is the addition's other operand.

    Raises
    ------
    LoweringError
        The node fits the scratchpads at no tiling.
    """
    scheduling = scheduling or Scheduling()
    if node.op in _CONVOLUTIONS:
        return lower_convolution(graph, node, config, scheduling, addition)
    if node.op in _ELEMENTWISE:
        return lower_elementwise(graph, node, config, vthreads=scheduling.vthreads)
    return lower_max_pool(graph, node, config, vthreads=scheduling.vthreads)
