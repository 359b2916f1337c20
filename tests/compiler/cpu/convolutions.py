"""Graphs of one convolution of floats, what they compute by definition, and their code run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.compiler.targets.cpu.guarded import guarded, guarded_copy
from vdla.compiler.cpu.pipeline import CpuCode
from vdla.compiler.graph import Graph, Node, Tensor
from vdla.runtime.native import Library

__all__ = ["close", "convolution", "numpy_convolution", "run"]

Array = np.ndarray
NONE = (-np.inf, np.inf)


def convolution(
    shape: tuple[int, int, int, int],
    outputs: int,
    window: int,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilation: int = 1,
    *,
    clip: object = NONE,
    residual: bool = False,
) -> Graph:
    """Return a graph of one convolution with bias, and perhaps an addition after it."""
    rng = np.random.default_rng(7)
    n, height, width, depth = shape
    reach = dilation * (window - 1) + 1
    size = [(extent + sum(padding) - reach) // stride + 1 for extent in (height, width)]
    weight = rng.normal(size=(outputs, window, window, depth)) / window / np.sqrt(depth)
    weight = weight.astype(np.float32)
    bias = rng.normal(size=outputs).astype(np.float32)
    f32 = np.dtype(np.float32)
    out = (n, *size, outputs)
    tensors = [
        Tensor("x", shape, f32),
        Tensor("w", weight.shape, f32, data=weight),
        Tensor("b", bias.shape, f32, data=bias),
        Tensor("y", out, f32),
    ]
    attrs = {
        "clip": clip,
        "strides": (stride, stride),
        "padding": (padding, padding),
        "dilation": (dilation, dilation),
        "rounding": "double",
    }
    nodes = [Node("conv", "conv2d", ("x", "w", "b"), ("y",), attrs)]
    if not residual:
        return Graph("one", tensors, nodes, ("x",), ("y",))
    tensors += [Tensor("r", out, f32), Tensor("z", out, f32)]
    rest = {"clip": (0.0, np.inf), "rounding": "double"}
    nodes.append(Node("add", "add", ("r", "y"), ("z",), rest))
    return Graph("two", tensors, nodes, ("x", "r"), ("z",))


def numpy_convolution(graph: Graph, values: Mapping[str, Array]) -> Array:
    """Return the graph's output from the definition, in double precision."""
    node, tensors = graph.nodes[0], graph.tensors
    x = np.pad(values["x"].astype(np.float64), ((0, 0), *node.attrs["padding"], (0, 0)))
    w, b = tensors[node.inputs[1]].data, tensors["b"].data
    (s, _), (d, _) = node.attrs["strides"], node.attrs["dilation"]
    _, rows, columns, _ = tensors["y"].shape
    total = np.zeros(tensors["y"].shape) + b
    for i in range(w.shape[1]):
        for j in range(w.shape[2]):
            part = x[:, i * d :: s, j * d :: s][:, :rows, :columns]
            total += np.einsum("nhwc,oc->nhwo", part, w[:, i, j])
    total = np.clip(total, *node.attrs["clip"])
    return np.maximum(total + values["r"], 0) if "r" in values else total


def run(code: CpuCode, graph: Graph, values: Mapping[str, Array], at: str, threads: int) -> Array:
    """Return the graph's one output, every array beside memory that must not be touched."""
    (one,) = code.runs
    inputs = [guarded_copy(values[name], at=at) for name in one.inputs]
    tensor = graph.tensors[one.outputs[0]]
    output = guarded(tensor.shape, str(tensor.dtype), at=at)
    output.view(np.uint8)[...] = 0xFF
    constants = guarded_copy(code.constants, at=at, align=64)
    arena = guarded((one.memory.arena_bytes,), "uint8", at=at, align=64)
    with Library(code.library, threads=threads) as library:
        library.function(one.name)(*inputs, output, constants, arena)
    return output


def close(actual: Array, expected: Array) -> None:
    """Hold float32 sums to what their rounding allows, Winograd's included."""
    scale = np.abs(expected).max()
    assert np.abs(actual - expected).max() <= 3e-5 * scale
