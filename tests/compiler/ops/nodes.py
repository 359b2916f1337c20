"""Graphs of one node with drawn weights, and how one runs on the functional model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.graph.shapes import window_output
from vdla.compiler.ops import LoweredNode, Scheduling, lower_node, unsupported
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.vdla.build import Operator, build
from vdla.compiler.te import Tensor as Placeholder
from vdla.config import Config
from vdla.sim.functional import run

__all__ = [
    "Built",
    "add",
    "as_uint8",
    "compare",
    "compile_node",
    "conv2d",
    "dense",
    "depthwise",
    "mean",
    "mixed",
    "pack",
    "pool",
    "rescale",
    "unpack",
]

Array = NDArray[Any]
Pair = tuple[int, int]
Pads = tuple[Pair, Pair]
NO_PADS: Pads = ((0, 0), (0, 0))
FULL: Pair = (-128, 127)


def pack(values: Array, block: int, batch: int, filler: np.random.Generator) -> Array:
    """Return NHWC or NC values in blocks; lanes and images that stand for nothing hold noise."""
    if values.dtype == np.uint8:  # 128 lower in the accelerator's memory
        values = (values.astype(np.int16) - 128).astype(np.int8)
    shape = values.shape if values.ndim == 4 else (prod(values.shape[:-1]), 1, 1, values.shape[-1])
    n, c = -(-shape[0] // batch), -(-shape[3] // block)
    room = (n * batch, shape[1], shape[2], c * block)
    padded = filler.integers(-128, 128, room).astype(np.int8)
    padded[: shape[0], :, :, : shape[3]] = values.reshape(shape)
    split = padded.reshape(n, batch, shape[1], shape[2], c, block)
    return np.ascontiguousarray(split.transpose(0, 4, 2, 3, 1, 5))


def unpack(blocked: Array, shape: Sequence[int]) -> Array:
    """Return blocked values as NHWC or NC of a shape."""
    n, c, height, width, batch, block = blocked.shape
    nhwc = blocked.transpose(0, 4, 2, 3, 1, 5).reshape(n * batch, height, width, c * block)
    return nhwc[: prod(shape) // (height * width * shape[-1]), :, :, : shape[-1]].reshape(shape)


def quant(scale: float, zero_point: int = 0) -> Quant:
    return Quant(np.array([scale], np.float32), np.array([zero_point]))


def one_node(
    op: str,
    inputs: Sequence[Tensor],
    shape: Sequence[int],
    scale: float,
    zero_point: int,
    attrs: dict[str, Any],
) -> Graph:
    output = Tensor("y", tuple(shape), np.dtype(np.int8), quant(scale, zero_point))
    node = Node(op, op, tuple(t.name for t in inputs), ("y",), attrs)
    moving = [t.name for t in inputs if not t.is_constant]
    return Graph(op, [*inputs, output], [node], moving, ["y"])


def activation(name: str, shape: Sequence[int], scale: float, zero_point: int) -> Tensor:
    return Tensor(name, tuple(shape), np.dtype(np.int8), quant(scale, zero_point))


def _weighted(
    op: str,
    shape: Sequence[int],
    weights: tuple[int, ...],
    out: Sequence[int],
    zeros: Pair,
    axis: int,
    seed: int,
    attrs: dict[str, Any],
) -> Graph:
    """A convolution or dense layer whose outputs spread over the whole range of int8."""
    rng = np.random.default_rng(seed)
    channels = out[-1]
    fan_in = prod(weights) // weights[axis]
    values = rng.integers(-127, 128, weights).astype(np.int8)
    scales = rng.uniform(0.5, 2, channels).astype(np.float32)
    wq = Quant(scales, np.zeros(channels, np.int64), axis=axis)
    if op == "dense":
        wq = quant(1.0)
    bias = rng.integers(-30000, 30000, channels).astype(np.int32)
    spread = 73 * 73 * np.sqrt(fan_in) / 50
    inputs = [
        activation("x", shape, 1.0, zeros[0]),
        Tensor("w", weights, values.dtype, wq, values),
        Tensor("b", bias.shape, bias.dtype, None, bias),
    ]
    return one_node(op, inputs, out, spread, zeros[1], attrs)


def _windows(shape: Sequence[int], kernel: Pair, strides: Pair, pads: Pads, dilation: Pair) -> Pair:
    rows, columns = (
        window_output(shape[1 + k], kernel[k], strides[k], pads[k], dilation[k]) for k in range(2)
    )
    return rows, columns


def conv2d(
    shape: Sequence[int],
    out: int,
    kernel: Pair = (3, 3),
    *,
    groups: int = 1,
    strides: Pair = (1, 1),
    pads: Pads = NO_PADS,
    dilation: Pair = (1, 1),
    zeros: Pair = (3, -5),
    clip: Pair = FULL,
    seed: int = 0,
) -> Graph:
    attrs = {"clip": clip, "padding": pads, "strides": strides}
    attrs |= {"dilation": dilation, "rounding": "double"}
    size = _windows(shape, kernel, strides, pads, dilation)
    weights = (out, *kernel, shape[3] // groups)
    return _weighted("conv2d", shape, weights, (shape[0], *size, out), zeros, 0, seed, attrs)


def depthwise(
    shape: Sequence[int],
    kernel: Pair = (3, 3),
    *,
    multiplier: int = 1,
    strides: Pair = (1, 1),
    pads: Pads = NO_PADS,
    dilation: Pair = (1, 1),
    zeros: Pair = (3, -5),
    clip: Pair = FULL,
    seed: int = 0,
) -> Graph:
    attrs = {"clip": clip, "padding": pads, "strides": strides}
    attrs |= {"dilation": dilation, "rounding": "double"}
    out = shape[3] * multiplier
    size = _windows(shape, kernel, strides, pads, dilation)
    outputs = (shape[0], *size, out)
    return _weighted("depthwise_conv2d", shape, (1, *kernel, out), outputs, zeros, 3, seed, attrs)


def dense(
    shape: Sequence[int],
    units: int,
    *,
    rounding: str = "single",
    zeros: Pair = (3, -5),
    clip: Pair = FULL,
    seed: int = 0,
) -> Graph:
    attrs = {"clip": clip, "keep_dims": False, "rounding": rounding}
    rows = prod(shape) // shape[-1]
    weights = (units, shape[-1])
    return _weighted("dense", shape, weights, (rows, units), zeros, 0, seed, attrs)


def add(
    shape: Sequence[int],
    *,
    scales: tuple[float, float, float] = (0.7, 1.9, 2.3),
    zeros: tuple[int, int, int] = (-128, 127, 0),
    clip: Pair = FULL,
) -> Graph:
    inputs = [activation(n, shape, scales[k], zeros[k]) for k, n in enumerate("ab")]
    attrs = {"clip": clip, "rounding": "double"}
    return one_node("add", inputs, shape, scales[2], zeros[2], attrs)


def pool(
    op: str,
    shape: Sequence[int],
    window: Pair,
    *,
    strides: Pair = (1, 1),
    pads: Pads = NO_PADS,
    clip: Pair = FULL,
    zero_point: int = 5,
) -> Graph:
    attrs = {"clip": clip, "padding": pads, "strides": strides, "window": window}
    size = _windows(shape, window, strides, pads, (1, 1))
    x = activation("x", shape, 0.5, zero_point)
    return one_node(op, [x], (shape[0], *size, shape[3]), 0.5, zero_point, attrs)


def mean(
    shape: Sequence[int],
    *,
    scales: tuple[float, float] = (0.5, 0.2),
    zeros: Pair = (3, -5),
    keep_dims: bool = False,
) -> Graph:
    attrs = {"axes": (1, 2), "keep_dims": keep_dims, "rounding": "double"}
    out = (shape[0], 1, 1, shape[3]) if keep_dims else (shape[0], shape[3])
    x = activation("x", shape, scales[0], zeros[0])
    return one_node("mean", [x], out, scales[1], zeros[1], attrs)


def rescale(
    op: str,
    shape: Sequence[int],
    *,
    scales: tuple[float, float] = (0.5, 0.7),
    zeros: Pair = (3, -5),
    clip: Pair = FULL,
) -> Graph:
    attrs: dict[str, Any] = {"rounding": "double"}
    attrs |= {} if op == "quantize" else {"clip": clip}
    x = activation("x", shape, scales[0], zeros[0])
    return one_node(op, [x], shape, scales[1], zeros[1], attrs)


def leaky(
    shape: Sequence[int],
    alpha: float,
    *,
    scales: tuple[float, float] = (0.5, 0.7),
    zeros: Pair = (3, -5),
) -> Graph:
    x = activation("x", shape, scales[0], zeros[0])
    return one_node("leaky_relu", [x], shape, scales[1], zeros[1], {"alpha": alpha})


def as_uint8(graph: Graph, weight_zero: int = 128, beyond: int | None = None) -> Graph:
    """Return a graph with every value 128 higher, so that all that is int8 becomes uint8.

    ``beyond`` weights are 0 or 255, as far as they can be from ``weight_zero``; the others stay in
    its reach of int8. With None all stand as drawn.
    """
    rng = np.random.default_rng(weight_zero)

    def moved(tensor: Tensor) -> Tensor:
        if tensor.quant is None:
            return tensor
        q, zeros, data = tensor.quant, tensor.quant.zero_point + 128, tensor.data
        if data is not None:
            data = data.astype(np.int16) + 128
            zeros = np.full_like(q.zero_point, weight_zero)
            if beyond is not None:
                data = np.clip(data, weight_zero - 128, weight_zero + 127)
                places = rng.choice(data.size, beyond, replace=False)
                data.flat[places] = 0 if weight_zero > 128 else 255
            data = data.astype(np.uint8)
        quant = Quant(q.scale, zeros, q.axis)
        return replace(tensor, dtype=np.dtype(np.uint8), quant=quant, data=data)

    (node,) = graph.nodes
    attrs = dict(node.attrs)
    if "clip" in attrs:
        attrs["clip"] = tuple(bound + 128 for bound in attrs["clip"])
    tensors = [moved(tensor) for tensor in graph.tensors.values()]
    return Graph(graph.name, tensors, [replace(node, attrs=attrs)], graph.inputs, graph.outputs)


def mixed(graph: Graph, *names: str) -> Graph:
    """Return a graph with some int8 tensors 128 higher, as uint8."""
    tensors = {
        name: replace(
            tensor,
            dtype=np.dtype(np.uint8),
            quant=Quant(tensor.quant.scale, tensor.quant.zero_point + 128),
        )
        if name in names and tensor.quant is not None
        else tensor
        for name, tensor in graph.tensors.items()
    }
    return Graph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)


@dataclass(frozen=True)
class Built:
    """A node's program, its memory with inputs and constants, and what it must compute."""

    operator: Operator
    lowered: LoweredNode
    memory: NDArray[np.uint8]
    expected: Array

    def output(self, memory: NDArray[np.uint8]) -> Array:
        """Return the result from a memory image, in the reference's shape."""
        blocked = self.operator.read(memory, self.lowered.result)
        if blocked.ndim != 6:  # an element-wise operator's sequence of entries
            size = self.expected.shape[1:3] if self.expected.ndim == 4 else (1, 1)
            blocks = -(-self.expected.shape[-1] // blocked.shape[-1])
            blocked = blocked.reshape(-1, blocks, *size, *blocked.shape[-2:])
        found = unpack(blocked, self.expected.shape)
        if self.expected.dtype == np.uint8:
            found = (found.astype(np.int16) + 128).astype(np.uint8)
        return found


def compile_node(graph: Graph, config: Config, *, vthreads: int = 2, seed: int = 0) -> Built:
    """Lower and build a graph's one node, and draw its inputs over the whole of their type."""
    (node,) = graph.nodes
    assert unsupported(graph, node, config) is None
    lowered = lower_node(graph, node, config, Scheduling(vthreads))
    rng = np.random.default_rng(seed)
    given = {
        name: rng.integers(0, 256, graph.tensors[name].shape)
        .astype(np.uint8)
        .view(graph.tensors[name].dtype)
        for name in graph.inputs
    }
    images: dict[Placeholder, Array] = dict(lowered.constants)
    for place, name in zip(lowered.inputs, graph.inputs, strict=True):
        blocked = pack(given[name], lowered.input_block, config.batch, rng)
        images[place] = blocked.reshape(place.shape)
    operator = build(lowered.schedule, [*images, lowered.result], config)
    expected = Interpreter(graph).run(given)["y"]
    return Built(operator, lowered, operator.memory(images), expected)


def compare(graph: Graph, config: Config, *, vthreads: int = 2) -> Built:
    """Run a graph's node on the functional model and compare it with the interpreter."""
    built = compile_node(graph, config, vthreads=vthreads)
    memory = built.memory.copy()
    run(built.operator.program, memory)
    np.testing.assert_array_equal(built.output(memory), built.expected)
    return built
