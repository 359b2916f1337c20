"""Small float networks with drawn weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.graph.shapes import window_output

FLOAT = np.dtype(np.float32)
OPEN = (-np.inf, np.inf)
RELU = (0.0, np.inf)
RELU6 = (0.0, 6.0)


class FloatDraft:
    """A float network being written: each method adds a node and returns its output's name."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0) -> None:
        self.source = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.tensors = {"input": Tensor("input", shape, FLOAT)}

    def conv(
        self,
        name: str,
        x: str,
        channels: int,
        window: int = 3,
        clip: Any = OPEN,
        gains: Any = 1.0,
        bias: bool = True,
    ) -> str:
        n, height, width, depth = self.tensors[x].shape
        weight = self.source.normal(
            0, (window**2 * depth) ** -0.5, (channels, window, window, depth)
        )
        weight *= np.reshape(gains, (-1, 1, 1, 1))
        shape = (n, height, width, channels)
        return self._weighted(name, "conv2d", x, weight, shape, clip, gains, bias)

    def depthwise(self, name: str, x: str, clip: Any = OPEN, gains: Any = 1.0) -> str:
        shape = self.tensors[x].shape
        weight = self.source.normal(0, 0.4, (1, 3, 3, shape[3])) * gains
        return self._weighted(name, "depthwise_conv2d", x, weight, shape, clip, gains, True)

    def dense(self, name: str, x: str, units: int) -> str:
        depth = self.tensors[x].shape[1]
        weight = self.source.normal(0, depth**-0.5, (units, depth))
        self.constant(f"{name}.weight", weight)
        self.constant(f"{name}.bias", self.source.normal(0, 0.1, units))
        attrs = {"clip": OPEN, "keep_dims": False, "rounding": "single"}
        inputs = (x, f"{name}.weight", f"{name}.bias")
        return self.node(name, "dense", inputs, (1, units), attrs)

    def add(self, name: str, a: str, b: str, clip: Any = OPEN) -> str:
        attrs = {"clip": clip, "rounding": "double"}
        return self.node(name, "add", (a, b), self.tensors[a].shape, attrs)

    def relu(self, name: str, x: str, clip: Any = RELU) -> str:
        attrs = {"clip": clip, "rounding": "double"}
        return self.node(name, "relu", (x,), self.tensors[x].shape, attrs)

    def softmax(self, name: str, x: str) -> str:
        attrs = {"beta": 1.0, "axis": len(self.tensors[x].shape) - 1}
        return self.node(name, "softmax", (x,), self.tensors[x].shape, attrs)

    def max_pool(self, name: str, x: str) -> str:
        n, height, width, channels = self.tensors[x].shape
        size = (window_output(d, 2, 2, (0, 0), 1) for d in (height, width))
        attrs = {"clip": OPEN, "padding": ((0, 0), (0, 0)), "strides": (2, 2), "window": (2, 2)}
        return self.node(name, "max_pool2d", (x,), (n, *size, channels), attrs)

    def mean(self, name: str, x: str) -> str:
        n, _, _, channels = self.tensors[x].shape
        attrs = {"axes": (1, 2), "keep_dims": False, "rounding": "double"}
        return self.node(name, "mean", (x,), (n, channels), attrs)

    def node(
        self, name: str, op: str, inputs: tuple[str, ...], shape: tuple[int, ...], attrs: Any
    ) -> str:
        output = f"{name}.out"
        self.tensors[output] = Tensor(output, shape, FLOAT)
        self.nodes.append(Node(name, op, inputs, (output,), attrs))
        return output

    def constant(self, name: str, data: Any) -> str:
        data = np.asarray(data, np.float32)
        self.tensors[name] = Tensor(name, data.shape, FLOAT, None, data)
        return name

    def finish(self, *outputs: str) -> Graph:
        return Graph("draft", self.tensors, self.nodes, ["input"], outputs)

    def _weighted(
        self,
        name: str,
        op: str,
        x: str,
        weight: Any,
        shape: tuple[int, ...],
        clip: Any,
        gains: Any,
        bias: bool,
    ) -> str:
        self.constant(f"{name}.weight", weight)
        inputs: tuple[str, ...] = (x, f"{name}.weight")
        if bias:
            self.constant(f"{name}.bias", self.source.normal(0, 0.1, shape[-1]) * gains)
            inputs = (*inputs, f"{name}.bias")
        pad = weight.shape[1] // 2
        attrs = {
            "clip": clip,
            "dilation": (1, 1),
            "padding": ((pad, pad), (pad, pad)),
            "rounding": "double",
            "strides": (1, 1),
        }
        return self.node(name, op, inputs, shape, attrs)


def images(graph: Graph, count: int = 4, seed: int = 1) -> np.ndarray:
    """Return noise of the graph's input shape, float32."""
    shape = graph.tensors["input"].shape[1:]
    return np.random.default_rng(seed).normal(0, 1, (count, *shape)).astype(np.float32)


def residual() -> Graph:
    """Convolutions around an addition, pools, a classifier, softmax: all of it has integers."""
    net = FloatDraft((1, 8, 8, 3))
    x = net.conv("stem", "input", 8, clip=RELU)
    y = net.conv("body", x, 8)
    x = net.max_pool("pool", net.add("sum", y, x, RELU))
    x = net.dense("dense", net.mean("mean", x), 5)
    return net.finish(net.softmax("softmax", x))


def gated() -> Graph:
    """A sigmoid and a product, which have no integers, between two convolutions."""
    net = FloatDraft((1, 6, 6, 4))
    x = net.conv("first", "input", 4)
    gate = net.node("sigmoid", "sigmoid", (x,), (1, 6, 6, 4), {})
    x = net.node("gate", "mul", (x, gate), (1, 6, 6, 4), {})
    return net.finish(net.conv("second", x, 4))


def uneven(clip: Any = RELU) -> Graph:
    """A depthwise block whose channels differ by a factor of a thousand."""
    net = FloatDraft((1, 8, 8, 4))
    gains = np.logspace(-2, 1, 12)
    x = net.conv("expand", "input", 12, 1, clip, gains)
    x = net.depthwise("depthwise", x, clip, 1 / gains)
    return net.finish(net.conv("project", x, 6, 1))


def silent(doing: str, images: int) -> None:
    """Hear of progress and do nothing."""
