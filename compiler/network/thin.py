"""Convolutions of few channels, laid out anew so that they fill the core's lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.graph.quantization import tensor_quant
from vdla.compiler.ops import Scheduling, lower_node
from vdla.config import Config
from vdla.errors import LoweringError

from .placement import VDLA, Placement

__all__ = ["Widened", "space_to_depth", "unfold", "widen_thin_convolutions"]


@dataclass(frozen=True)
class Widened:
    """A graph whose thin convolutions are rewritten.

    Attributes
    ----------
    graph : Graph
    macs : mapping of str to int
        Multiply-accumulates of each rewritten convolution as the network states it: those with
        zeros that only fill a block are not counted.
    """

    graph: Graph
    macs: Mapping[str, int] = field(default_factory=dict)


def widen_thin_convolutions(
    graph: Graph,
    config: Config,
    placed: Mapping[str, Placement],
    scheduling: Scheduling,
) -> Widened:
    """Rewrite each convolution that would leave lanes idle on data which the host packs anyway.

    An image of 3 channels fills 3 of 16 lanes. While the host brings it into blocks, it can as
    well put a whole window's pixels (`unfold`) or a square of them (`space_to_depth`) side by
    side. Whichever of these and the plain form the estimate finds fastest stays; on a tie, the
    one of which the host writes least.

    Before: ``conv1 7x7 s2 of (1, 224, 224, 3)``: 49 blocks a vector. After: ``unfold (1, 112, 112,
    147); conv1 1x1``: 10 blocks a vector; or ``space_to_depth (1, 115, 115,
    12); conv1 4x4 s1``: 16.

    Parameters
    ----------
    graph : Graph
    config : Config
    placed : mapping of str to Placement
        Of each node.
    scheduling : Scheduling
        Of the schedules that are compared.
    """
    widened, macs = graph, {}
    for node in graph.nodes:
        if not _is_thin(graph, node, config, placed):
            continue
        variants = [widened, *_variants(widened, widened.node(node.name))]
        costs = [_cost(v, node.name, config, scheduling) for v in variants]
        best = variants[costs.index(min(costs))]
        if best is not widened:
            widened, macs[node.name] = best, graph.macs(node)
    return Widened(widened, macs)


def unfold(graph: Graph, node: Node) -> Graph:
    """Return the graph with a convolution as a 1x1 convolution of its windows.

    Before: ``y = conv2d(x (N, H, W, C), w (O, KH, KW, C))``. After: ``u = unfold(x) (N, OH, OW,
    KH * KW * C); y = conv2d(u, w (O, 1, 1, KH * KW * C))``.
    """
    data, weight = graph.input_tensors(node)[:2]
    assert weight.data is not None
    n, height, width, _ = graph.output_tensor(node).shape
    flat = weight.data.reshape(weight.shape[0], 1, 1, -1)
    attrs = {
        **{name: node.attrs[name] for name in ("dilation", "padding", "strides")},
        "value": int(tensor_quant(data).zero_point[0]),
        "window": weight.shape[1:3],
    }
    return _replaced(graph, node, "unfold", attrs, (n, height, width, flat.shape[-1]), flat)


def space_to_depth(graph: Graph, node: Node) -> Graph | None:
    """Return the graph with a strided convolution as one of stride 1 over squares of pixels.

    Before: ``y = conv2d(x (N, H, W, C), w (O, KH, KW, C), strides s)``. After: ``d =
    space_to_depth(x, s) (N, H', W', s * s * C); y = conv2d(d, w (O, ceil(KH / s), ceil(KW / s),
    s * s * C))``, the weights filled up with zeros. None where the convolution has no such form.
    """
    data, weight = graph.input_tensors(node)[:2]
    assert weight.data is not None
    block = node.attrs["strides"][0]
    if block == 1 or node.attrs["strides"] != (block, block) or node.attrs["dilation"] != (1, 1):
        return None
    output = graph.output_tensor(node).shape
    taps = [-(-size // block) for size in weight.shape[1:3]]
    sides = [output[1 + k] - 1 + taps[k] for k in range(2)]
    before = [node.attrs["padding"][k][0] for k in range(2)]
    after = [block * sides[k] - before[k] - data.shape[1 + k] for k in range(2)]
    if min(after) < 0:
        return None
    units, rows, columns, channels = weight.shape
    room = np.zeros((units, taps[0] * block, taps[1] * block, channels), weight.dtype)
    # A weight's zero point is what multiplies nothing, and what an added tap must hold.
    zero = tensor_quant(weight).zero_point
    room += (zero if zero.size == 1 else zero.reshape(-1, 1, 1, 1)).astype(weight.dtype)
    room[:, :rows, :columns] = weight.data
    split = room.reshape(units, taps[0], block, taps[1], block, channels)
    deep = split.transpose(0, 1, 3, 2, 4, 5).reshape(units, *taps, -1)
    attrs = {
        "block": block,
        "padding": tuple(zip(before, after, strict=True)),
        "value": int(tensor_quant(data).zero_point[0]),
    }
    shape = (data.shape[0], *sides, deep.shape[-1])
    return _replaced(graph, node, "space_to_depth", attrs, shape, np.ascontiguousarray(deep))


def _variants(graph: Graph, node: Node) -> Iterator[Graph]:
    deep = space_to_depth(graph, node)
    if deep is not None:
        yield deep
    yield unfold(graph, node)


def _is_thin(graph: Graph, node: Node, config: Config, placed: Mapping[str, Placement]) -> bool:
    if node.op != "conv2d" or placed[node.name].device != VDLA:
        return False
    data, weight = graph.input_tensors(node)[:2]
    source = graph.producer(data.name)
    by_host = source is None or placed[source.name].device != VDLA
    plain = data.shape[3] == weight.shape[3]
    return by_host and plain and data.shape[3] < config.block_in and weight.shape[1:3] != (1, 1)


def _cost(graph: Graph, name: str, config: Config, scheduling: Scheduling) -> tuple[float, int]:
    """Return the cycles of a convolution, and the bytes that the host makes of its input."""
    node = graph.node(name)
    channels = -(-graph.input_tensors(node)[0].shape[3] // config.block_in) * config.block_in
    written = graph.input_tensors(node)[0].size // graph.input_tensors(node)[0].shape[3] * channels
    try:
        lowered = lower_node(graph, node, config, scheduling)
    except LoweringError:
        return float("inf"), written
    return lowered.estimate_cycles, written


def _replaced(
    graph: Graph,
    node: Node,
    op: str,
    attrs: Mapping[str, object],
    shape: tuple[int, ...],
    weights: np.ndarray,
) -> Graph:
    """Return the graph with `op` before a convolution that then has stride 1 and no padding."""
    data, weight = graph.input_tensors(node)[:2]
    laid_out = Tensor(f"{node.name}.{op}.out", shape, data.dtype, data.quant)
    packed = Tensor(
        f"{node.name}.{op}.weight",
        weights.shape,
        weight.dtype,
        weight.quant,
        weights,
        weight.source,
    )
    plain = {
        **node.attrs,
        "strides": (1, 1),
        "padding": ((0, 0), (0, 0)),
        "dilation": (1, 1),
    }
    pair = (
        Node(f"{node.name}.{op}", op, (data.name,), (laid_out.name,), attrs),
        replace(node, inputs=(laid_out.name, packed.name, *node.inputs[2:]), attrs=plain),
    )
    nodes = [new for old in graph.nodes for new in (pair if old is node else (old,))]
    tensors = [*graph.tensors.values(), laid_out, packed]
    return Graph(graph.name, tensors, nodes, graph.inputs, graph.outputs)
