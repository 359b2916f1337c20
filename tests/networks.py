"""Small int8 networks with drawn weights, every kind of edge among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, Quant, Tensor

__all__ = ["Draft", "as_uint8", "images_for", "residual"]

FULL = (-128, 127)


class Draft:
    """A network being written: each method adds a node and returns its output's name.

    The scales keep values in range for weights of 2 bits, so that outputs differ from each other.
    """

    def __init__(self, name: str, shape: tuple[int, ...], seed: int = 0) -> None:
        self.name = name
        self._source = np.random.default_rng(seed)
        self._nodes: list[Node] = []
        self._tensors: dict[str, Tensor] = {}
        self._activation("input", shape)

    def conv(self, name: str, x: str, channels: int, window: int = 3, stride: int = 1) -> str:
        n, height, width, depth = self._tensors[x].shape
        pad = window // 2
        self._weights(name, (channels, window, window, depth))
        size = tuple((d + 2 * pad - window) // stride + 1 for d in (height, width))
        return self._node(
            name,
            "conv2d",
            (x, f"{name}.weight", f"{name}.bias"),
            (n, *size, channels),
            strides=(stride, stride),
            padding=((pad, pad), (pad, pad)),
            dilation=(1, 1),
            rounding="double",
            clip=FULL,
        )

    def add(self, name: str, a: str, b: str) -> str:
        shape = self._tensors[a].shape
        return self._node(name, "add", (a, b), shape, rounding="double", clip=FULL)

    def average(self, name: str, x: str) -> str:
        n, height, width, channels = self._tensors[x].shape
        self._tensors[f"{name}.out"] = Tensor(
            f"{name}.out", (n, 1, 1, channels), np.dtype(np.int8), self._tensors[x].quant
        )
        attrs = {
            "clip": FULL,
            "padding": ((0, 0), (0, 0)),
            "strides": (height, width),
            "window": (height, width),
        }
        self._nodes.append(Node(name, "avg_pool2d", (x,), (f"{name}.out",), attrs))
        return f"{name}.out"

    def reshape(self, name: str, x: str, shape: tuple[int, ...]) -> str:
        source = self._tensors[x]
        self._tensors[f"{name}.out"] = Tensor(f"{name}.out", shape, source.dtype, source.quant)
        self._nodes.append(Node(name, "reshape", (x,), (f"{name}.out",), {"shape": shape}))
        return f"{name}.out"

    def dense(self, name: str, x: str, units: int) -> str:
        n, depth = 1, self._tensors[x].size
        self._weights(name, (units, depth))
        return self._node(
            name,
            "dense",
            (x, f"{name}.weight", f"{name}.bias"),
            (n, units),
            keep_dims=False,
            rounding="single",
            clip=FULL,
        )

    def concat(self, name: str, *parts: str, axis: int = 3) -> str:
        """Join tensors, by default along channels; all get the first one's scale."""
        quant = self._tensors[parts[0]].quant
        for part in parts[1:]:
            self._tensors[part] = replace(self._tensors[part], quant=quant)
        shape = list(self._tensors[parts[0]].shape)
        shape[axis] = sum(self._tensors[part].shape[axis] for part in parts)
        output = self._node(name, "concat", parts, tuple(shape), axis=axis)
        self._tensors[output] = replace(self._tensors[output], quant=quant)
        return output

    def softmax(self, name: str, x: str) -> str:
        self._tensors[f"{name}.out"] = Tensor(
            f"{name}.out", self._tensors[x].shape, np.dtype(np.int8), _quant(1 / 256, -128)
        )
        self._nodes.append(Node(name, "softmax", (x,), (f"{name}.out",), {"axis": 1, "beta": 1.0}))
        return f"{name}.out"

    def pad(self, name: str, x: str, rows: int) -> str:
        source = self._tensors[x]
        n, height, width, channels = source.shape
        pairs = ((0, 0), (rows, rows), (0, 0), (0, 0))
        shape = (n, height + 2 * rows, width, channels)
        self._tensors[f"{name}.out"] = Tensor(f"{name}.out", shape, source.dtype, source.quant)
        attrs = {"mode": "constant", "paddings": pairs, "value": 3}
        self._nodes.append(Node(name, "pad", (x,), (f"{name}.out",), attrs))
        return f"{name}.out"

    def finish(self, *outputs: str) -> Graph:
        return Graph(self.name, self._tensors, self._nodes, ["input"], outputs)

    def _node(
        self, name: str, op: str, inputs: tuple[str, ...], shape: tuple[int, ...], **attrs: Any
    ) -> str:
        output = self._activation(f"{name}.out", shape)
        self._nodes.append(Node(name, op, inputs, (output,), attrs))
        return output

    def _activation(self, name: str, shape: tuple[int, ...]) -> str:
        zero_point = int(self._source.integers(-20, 20))
        scale = 0.05 * (1 + float(self._source.random()))
        self._tensors[name] = Tensor(name, shape, np.dtype(np.int8), _quant(scale, zero_point))
        return name

    def _weights(self, name: str, shape: tuple[int, ...]) -> None:
        channels, fan_in = shape[0], int(np.prod(shape[1:]))
        levels = self._source.integers(-127, 128, shape).astype(np.int8)
        scale = (0.01 + 0.01 * self._source.random(channels)).astype(np.float32) / fan_in**0.5
        quant = Quant(scale, np.zeros(channels, np.int64), axis=0)
        self._tensors[f"{name}.weight"] = Tensor(
            f"{name}.weight", shape, levels.dtype, quant, levels
        )
        bias = self._source.integers(-2000, 2000, channels).astype(np.int32)
        self._tensors[f"{name}.bias"] = Tensor(f"{name}.bias", bias.shape, bias.dtype, None, bias)


def _quant(scale: float, zero_point: int) -> Quant:
    return Quant(np.array([scale], np.float32), np.array([zero_point]))


def residual(seed: int = 0) -> Graph:
    """Convolutions around an addition, average, classifier, softmax; 9x7 pixels, 20 channels."""
    net = Draft("residual", (1, 9, 7, 3), seed)
    x = net.conv("stem", "input", 20)
    y = net.conv("body", x, 20)
    z = net.add("sum", y, x)
    z = net.conv("down", z, 24, window=1, stride=2)
    z = net.reshape("flat", net.average("pool", z), (1, 24))
    return net.finish(net.softmax("softmax", net.dense("dense", z, 10)))


def images_for(graph: Graph, count: int, seed: int = 1) -> np.ndarray:
    """Return noise of the graph's input shape."""
    shape = graph.tensors[graph.inputs[0]].shape[1:]
    return np.random.default_rng(seed).integers(-128, 128, (count, *shape)).astype(np.int8)


def as_uint8(graph: Graph, weight_zero: int = 120) -> Graph:
    """Return an int8 network as a uint8 one; weights, less their zero point, leave int8 at places.

    Activations are 128 higher, with their zero points, clips and padding.
    """

    def moved(tensor: Tensor) -> Tensor:
        if tensor.quant is None:
            return tensor
        scale, zeros, data = tensor.quant.scale, tensor.quant.zero_point + 128, tensor.data
        if data is not None:  # one scale a tensor, as uint8 networks have
            scale, zeros = scale[:1], np.array([weight_zero])
            data = (data.astype(np.int16) + 128).astype(np.uint8)
        quant = Quant(scale, zeros)
        return Tensor(tensor.name, tensor.shape, np.dtype(np.uint8), quant, data)

    def shifted(node: Node) -> Node:
        attrs = dict(node.attrs)
        if "clip" in attrs:
            attrs["clip"] = tuple(bound + 128 for bound in attrs["clip"])
        return Node(node.name, node.op, node.inputs, node.outputs, attrs)

    tensors = [moved(tensor) for tensor in graph.tensors.values()]
    nodes = [shifted(node) for node in graph.nodes]
    return Graph(f"{graph.name}_uint8", tensors, nodes, graph.inputs, graph.outputs)
