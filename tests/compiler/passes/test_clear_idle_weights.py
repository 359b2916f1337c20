"""Weights that multiply nothing are cleared, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from vdla.compiler.graph import Graph, Node, Quant, Tensor, import_tflite
from vdla.compiler.passes.clear_idle_weights import channel_ranges, clear_idle_weights
from vdla.compiler.reference import Interpreter

UINT8 = np.dtype(np.uint8)
ATTRS = {
    "clip": (0, 255),
    "dilation": (1, 1),
    "padding": ((1, 1), (1, 1)),
    "rounding": "double",
    "strides": (1, 1),
}


def quant(scale: float, zero_point: int) -> Quant:
    return Quant(np.array([scale], np.float32), np.array([zero_point]))


def network(bias: int) -> Graph:
    """A convolution whose channel 2 has a bias, and a depthwise one of multiplier 2."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8)
    second = rng.integers(0, 256, (1, 3, 3, 8)).astype(np.uint8)
    biases = np.array([0, 100, bias, -50], np.int32)
    tensors = [
        Tensor("x", (1, 6, 5, 3), UINT8, quant(0.5, 128)),
        Tensor("w1", first.shape, UINT8, quant(0.1, 140), first),
        Tensor("b1", (4,), np.dtype(np.int32), None, biases),
        Tensor("y", (1, 6, 5, 4), UINT8, quant(20.0, 0)),
        Tensor("w2", second.shape, UINT8, quant(0.1, 204), second),
        Tensor("z", (1, 6, 5, 8), UINT8, quant(40.0, 7)),
    ]
    nodes = [
        Node("first", "conv2d", ("x", "w1", "b1"), ("y",), dict(ATTRS)),
        Node("second", "depthwise_conv2d", ("y", "w2"), ("z",), dict(ATTRS)),
    ]
    return Graph("g", tensors, nodes, ["x"], ["z"])


def data(graph: Graph, name: str) -> np.ndarray:
    values = graph.tensors[name].data
    assert values is not None
    return values


def test_a_channel_that_is_always_zero() -> None:
    graph = network(-10_000_000)
    cleared = clear_idle_weights(graph)
    np.testing.assert_array_equal(data(cleared, "w1"), data(graph, "w1"))
    assert (data(cleared, "w2")[..., 4:6] == 204).all()  # channel 2 makes outputs 4 and 5
    kept = [0, 1, 2, 3, 6, 7]
    np.testing.assert_array_equal(data(cleared, "w2")[..., kept], data(graph, "w2")[..., kept])
    images = np.random.default_rng(1).integers(0, 256, (9, 6, 5, 3)).astype(np.uint8)
    before, after = (Interpreter(g).run(images, keep_all=True) for g in (graph, cleared))
    for name in ("y", "z"):
        np.testing.assert_array_equal(before[name], after[name])


def test_a_channel_that_may_differ_from_zero_keeps_its_weights() -> None:
    # 27 products of at most 128 * 140 reach 483840: from there down nothing is left.
    graph = network(-100_000)
    np.testing.assert_array_equal(data(clear_idle_weights(graph), "w2"), data(graph, "w2"))


def test_a_constant_that_is_not_zero_keeps_its_weights() -> None:
    """Padding holds zero, so that windows differ at the border."""
    graph = network(10_000_000)
    assert channel_ranges(graph)["y"][0][2] == 255
    np.testing.assert_array_equal(data(clear_idle_weights(graph), "w2"), data(graph, "w2"))


def test_values_lie_in_their_ranges() -> None:
    graph = network(-200_000)
    ranges = channel_ranges(graph)
    extremes = [np.full((1, 6, 5, 3), v, np.uint8) for v in (0, 255)]
    drawn = np.random.default_rng(2).choice(np.array([0, 255], np.uint8), (200, 6, 5, 3))
    values = Interpreter(graph).run(np.concatenate([*extremes, drawn]), keep_all=True)
    for name in ("y", "z"):
        low, high = ranges[name]
        assert (values[name] >= low).all()
        assert (values[name] <= high).all()


def test_weights_without_a_zero_point_stay_as_they_are() -> None:
    graph = network(-10_000_000)
    plain = {n: replace(graph.tensors[n], quant=quant(0.1, 0)) for n in ("w1", "w2")}
    other = Graph("g", graph.tensors | plain, graph.nodes, ["x"], ["z"])
    cleared = clear_idle_weights(other)
    assert all(cleared.tensors[n] is plain[n] for n in plain)


def test_mobilenet_has_idle_channels(shared_data: Path) -> None:
    graph = import_tflite(shared_data / "coral" / "mobilenet_v1_0.25_128_quant.tflite")
    cleared = clear_idle_weights(graph)
    changed = [n for n, t in cleared.tensors.items() if t is not graph.tensors[n]]
    assert changed == [f"{node}.weight" for node in MOBILENET]


MOBILENET = ("depthwise_conv2d_1", "conv2d_2", "depthwise_conv2d_3", "conv2d_4")
