"""Linked layers as a quantized network, its weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.zoo.images import BELL_DEVIATION, Bits

from .linking import Layer

__all__ = ["network_of"]

_LEVELS = 40.0
"""Standard deviation that every activation is scaled to: few leave int8, few become 0."""

_NOISE = 74.0
"""Of an input of noise, uniform over int8."""

_FULL = (-128, 127)
_WEIGHT_SCALE = np.float32(1 / 1024)


def network_of(name: str, layers: Sequence[Layer]) -> Graph:
    """Return the network of a list: an input for each layer that reads none, int8 throughout.

    Every layer's output is requantized to a deviation of `_LEVELS` for noise at the inputs, so that
    values stay alive however long a chain is. What no layer reads is an output.
    """
    made = _Network()
    for layer in layers:
        made.add(layer)
    read = {name for node in made.nodes for name in node.inputs}
    outputs = [node.outputs[0] for node in made.nodes if node.outputs[0] not in read]
    return Graph(name, made.tensors, made.nodes, made.inputs, outputs)


class _Network:
    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self._spread: dict[str, float] = {}
        self._bits = Bits(0)

    def add(self, layer: Layer) -> None:
        """Add a layer, and an input for each operand that no layer makes."""
        row = layer.row
        sources = [self._source(layer, index, name) for index, name in enumerate(layer.reads)]
        output = f"{row.name}.out"
        attrs: dict[str, object] = {"clip": _FULL}
        if row.op in ("conv", "depthwise", "gemm"):
            sources = self._weighted(layer, sources[0], output)
            attrs |= {
                "strides": row.strides,
                "padding": layer.pads,
                "dilation": row.dilation,
                "rounding": "double",
            }
            op = "depthwise_conv2d" if row.op == "depthwise" else "conv2d"
        elif row.op == "add":
            spread = sum(self._spread[source] ** 2 for source in sources) ** 0.5
            op, attrs["rounding"] = "add", "double"
            self._activation(layer, output, self._scale(sources[0]) * spread / _LEVELS, _LEVELS)
        else:
            op = "max_pool2d" if row.op == "max_pool" else "avg_pool2d"
            attrs |= {"padding": layer.pads, "strides": row.strides, "window": row.window}
            taps = row.window[0] * row.window[1]
            spread = self._spread[sources[0]] / (1 if op == "max_pool2d" else taps**0.5)
            self._activation(layer, output, self._scale(sources[0]), spread)
        self.nodes.append(Node(row.name, op, tuple(sources), (output,), attrs))

    def _source(self, layer: Layer, index: int, name: str) -> str:
        if name:
            return f"{name}.out"
        suffix = f".input{index}" if len(layer.reads) > 1 else ".input"
        source = f"{layer.row.name}{suffix}"
        shape = (1, *layer.size, layer.row.channels)
        self.tensors[source] = Tensor(source, shape, np.dtype(np.int8), _quant(1 / 64))
        self.inputs.append(source)
        self._spread[source] = _NOISE
        return source

    def _scale(self, tensor: str) -> float:
        quant = self.tensors[tensor].quant
        assert quant is not None
        return float(quant.scale[0])

    def _weighted(self, layer: Layer, source: str, output: str) -> list[str]:
        """Draw weights and a bias, and scale the output to what they make of the input."""
        row = layer.row
        window = row.window
        if row.op == "depthwise":
            shape: tuple[int, ...] = (1, *window, row.filters)
            taps, axis = window[0] * window[1], 3
        else:
            depth = row.channels // row.groups
            shape, axis = (row.filters, *window, depth), 0
            taps = window[0] * window[1] * depth
        drawn = self._bits.bell(int(np.prod(shape))).reshape(shape)
        levels = np.clip(np.rint(drawn * (40 / BELL_DEVIATION)), -127, 127).astype(np.int8)
        zeros = np.zeros(row.filters, np.int64)
        step = np.full(row.filters, _WEIGHT_SCALE)
        weight, bias = f"{row.name}.weight", f"{row.name}.bias"
        self.tensors[weight] = Tensor(
            weight, shape, levels.dtype, Quant(step, zeros, axis=axis), levels
        )
        spread = self._spread[source] * 40 * taps**0.5
        offsets = np.rint(self._bits.bell(row.filters) * (spread / 4 / BELL_DEVIATION))
        scale = self._scale(source) * float(_WEIGHT_SCALE)
        self.tensors[bias] = Tensor(
            bias,
            (row.filters,),
            np.dtype(np.int32),
            Quant(np.full(row.filters, scale), zeros, axis=0),
            offsets.astype(np.int32),
        )
        self._activation(layer, output, scale * spread / _LEVELS, _LEVELS)
        return [source, weight, bias]

    def _activation(self, layer: Layer, name: str, scale: float, spread: float) -> None:
        shape = (1, *layer.out, layer.row.filters)
        self.tensors[name] = Tensor(name, shape, np.dtype(np.int8), _quant(scale))
        self._spread[name] = spread


def _quant(scale: float) -> Quant:
    return Quant(np.array([scale], np.float32), np.array([0]))
