"""Weights that leave int8, brought into fewer blocks by the order of channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.graph.quantization import tensor_quant
from vdla.compiler.passes.clear_idle_weights import channel_ranges

__all__ = ["gather_wide_weights"]

_POOLS = ("avg_pool2d", "max_pool2d")


@dataclass(frozen=True)
class _Chain:
    """A convolution, operators that keep channels apart, a convolution: nothing else between.

    The order of the channels between ``first`` and ``last`` is seen nowhere else.
    """

    first: Node
    between: tuple[Node, ...]
    last: Node

    @property
    def weighted(self) -> tuple[Node, ...]:
        """The nodes whose outputs are these channels and that have weights."""
        return (self.first, *(node for node in self.between if node.op not in _POOLS))


def gather_wide_weights(graph: Graph) -> Graph:
    """Order channels so that few blocks hold weights which, less their zero point, leave int8.

    The core multiplies int8; a block that holds one weight beyond it costs another product.

    - A channel that always holds zero, see `clear_idle_weights`, becomes a copy of one that meets
      a wide weight, which is then split between the two.
    - Channels that wide weights read or make come first, so that they share a block.

    Outputs of the network are the same; tensors inside have other channels.

    Before, z the zero point: ``w[11, 0] - z = 194``, ``w[11, 24] - z = 131``: two blocks. After:
    ``w[11, 0] - z = 194``, ``w[11, 1] - z = 131``: one; or with channel 5 idle ``w[11, 0] - z =
    97``, ``w[11, 5] - z = 97``: none.
    """
    work = _Work(graph)
    for chain in _chains(graph):
        work.copy_into_idle(chain)
        work.order(chain)
    return Graph(graph.name, work.tensors, graph.nodes, graph.inputs, graph.outputs)


def _chains(graph: Graph) -> Iterator[_Chain]:
    for last in graph.nodes:
        if not _is_ours(graph, last, "conv2d"):
            continue
        between: list[Node] = []
        first = _maker(graph, last)
        while first is not None and (
            first.op in _POOLS or _is_ours(graph, first, "depthwise_conv2d")
        ):
            between.append(first)
            first = _maker(graph, first)
        if first is not None and _is_ours(graph, first, "conv2d"):
            yield _Chain(first, tuple(between), last)


def _maker(graph: Graph, node: Node) -> Node | None:
    """Return the node that makes a node's input, where nothing else reads it."""
    name = node.inputs[0]
    alone = len(graph.consumers(name)) == 1 and name not in graph.outputs
    return graph.producer(name) if alone else None


def _is_ours(graph: Graph, node: Node, op: str) -> bool:
    """Whether a node has uint8 weights of its own, a channel of each input or of all."""
    if node.op != op:
        return False
    data, weight, *bias = graph.input_tensors(node)
    return (
        weight.dtype == np.uint8
        and weight.quant is not None
        and weight.quant.per_tensor
        and weight.shape[3] == data.shape[3]
        and all(t.is_constant and len(graph.consumers(t.name)) == 1 for t in (weight, *bias))
    )


class _Work:
    """The graph's tensors while they change."""

    def __init__(self, graph: Graph) -> None:
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self._graph = graph
        self._ranges = channel_ranges(graph)

    def copy_into_idle(self, chain: _Chain) -> None:
        """Split wide weights of the last convolution between a channel and a copy of it."""
        name = chain.last.inputs[0]
        zero = int(tensor_quant(self.tensors[name]).zero_point[0])
        low, high = self._ranges[name]
        idle = list(np.flatnonzero((low == zero) & (high == zero)))
        centred = self._centred(chain.last)
        wide = _wide(centred)
        made = self._made_wide(chain)
        for channel in np.flatnonzero(wide.any(axis=(0, 1, 2))):
            if not idle:
                break
            if channel in idle or made[channel]:  # its copy would be as wide
                continue
            copy = idle.pop(0)
            half = np.where(wide[..., channel], centred[..., channel] // 2, 0)
            centred[..., channel] -= half
            centred[..., copy] = half
            order = np.arange(len(low))
            order[copy] = channel
            for node in chain.weighted:
                self._reorder(node, order)
        self._put(chain.last, centred)

    def order(self, chain: _Chain) -> None:
        """Bring the channels that wide weights read or make to the front."""
        wide = self._made_wide(chain) | _wide(self._centred(chain.last)).any(axis=(0, 1, 2))
        if np.count_nonzero(wide) < 2:
            return
        order = np.argsort(~wide, kind="stable")
        for node in chain.weighted:
            self._reorder(node, order)
        self._put(chain.last, self._centred(chain.last)[..., order])

    def _made_wide(self, chain: _Chain) -> NDArray[np.bool_]:
        made = np.zeros(self.tensors[chain.last.inputs[0]].shape[-1], np.bool_)
        for node in chain.weighted:
            wide = _wide(self._centred(node))
            outputs = 3 if node.op == "depthwise_conv2d" else 0
            made |= wide.any(axis=tuple(k for k in range(4) if k != outputs))
        return made

    def _reorder(self, node: Node, order: NDArray[np.intp]) -> None:
        """Let a node's output k be what its output ``order[k]`` was."""
        weight = self.tensors[node.inputs[1]]
        assert weight.data is not None
        axis = 3 if node.op == "depthwise_conv2d" else 0
        self.tensors[weight.name] = replace(weight, data=np.take(weight.data, order, axis))
        for name in node.inputs[2:]:
            bias = self.tensors[name]
            assert bias.data is not None
            self.tensors[name] = replace(bias, data=bias.data[order])

    def _centred(self, node: Node) -> NDArray[np.int64]:
        weight = self.tensors[node.inputs[1]]
        assert weight.data is not None
        centred: NDArray[np.int64] = weight.data.astype(np.int64)
        return centred - int(tensor_quant(weight).zero_point[0])

    def _put(self, node: Node, centred: NDArray[np.int64]) -> None:
        weight = self.tensors[node.inputs[1]]
        data = centred + int(tensor_quant(weight).zero_point[0])
        self.tensors[weight.name] = replace(weight, data=data.astype(np.uint8))


def _wide(centred: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (centred < -128) | (centred > 127)
