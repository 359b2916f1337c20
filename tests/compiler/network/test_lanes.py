"""Channels are ordered so that wide weights share blocks, and networks compute the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.network.lanes import gather_wide_weights
from vdla.compiler.reference import Interpreter

UINT8 = np.dtype(np.uint8)
ZERO = 120
SIZE = (1, 5, 4)


def quant(scale: float, zero_point: int) -> Quant:
    return Quant(np.array([scale], np.float32), np.array([zero_point]))


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Weights that, less their zero point, are int8."""
    return rng.integers(0, ZERO + 128, shape).astype(np.uint8)


def node(name: str, op: str, source: str, pad: int) -> Node:
    attrs: dict[str, Any] = {
        "clip": (0, 255),
        "dilation": (1, 1),
        "padding": ((pad, pad), (pad, pad)),
        "rounding": "double",
        "strides": (1, 1),
    }
    return Node(name, op, (source, f"{name}.w", f"{name}.b"), (f"{name}.out",), attrs)


def network() -> Graph:
    """conv a (6 channels), depthwise b, conv c."""
    rng = np.random.default_rng(0)
    shapes = {"a": (6, 1, 1, 3), "b": (1, 3, 3, 6), "c": (5, 1, 1, 6)}
    channels = {"a": 6, "b": 6, "c": 5}
    tensors = [Tensor("x", (*SIZE, 3), UINT8, quant(0.5, 128))]
    for name, shape in shapes.items():
        data = weights(rng, *shape)
        bias = rng.integers(-3000, 3000, channels[name]).astype(np.int32)
        scale = {"a": 60.0, "b": 2e4, "c": 2e6}[name]
        tensors += [
            Tensor(f"{name}.w", shape, UINT8, quant(1.0, ZERO), data),
            Tensor(f"{name}.b", bias.shape, bias.dtype, None, bias),
            Tensor(f"{name}.out", (*SIZE, channels[name]), UINT8, quant(scale, 0)),
        ]
    nodes = [
        node("a", "conv2d", "x", 0),
        node("b", "depthwise_conv2d", "a.out", 1),
        node("c", "conv2d", "b.out", 0),
    ]
    return Graph("g", tensors, nodes, ["x"], ["c.out"])


def changed(graph: Graph, name: str, index: tuple[int, ...], value: int) -> Graph:
    data = array(graph, name).copy()
    data[index] = value
    tensors = dict(graph.tensors)
    tensors[name] = replace(tensors[name], data=data)
    return Graph("g", tensors, graph.nodes, graph.inputs, graph.outputs)


def array(graph: Graph, name: str) -> np.ndarray:
    data = graph.tensors[name].data
    assert data is not None
    return data


def wide(graph: Graph, name: str) -> list[list[int]]:
    centred = array(graph, name).astype(int) - ZERO
    found: list[list[int]] = np.argwhere((centred < -128) | (centred > 127)).tolist()
    return found


def the_same(graph: Graph, other: Graph) -> None:
    images = np.random.default_rng(1).integers(0, 256, (20, *SIZE[1:], 3)).astype(np.uint8)
    want, got = (Interpreter(g).run(images)["c.out"] for g in (graph, other))
    assert len(np.unique(want)) > 100  # spread over the range
    np.testing.assert_array_equal(got, want)


def test_wide_weights_come_first() -> None:
    graph = changed(changed(network(), "c.w", (1, 0, 0, 2), 255), "c.w", (1, 0, 0, 5), 250)
    graph = changed(graph, "b.w", (0, 1, 1, 4), 251)
    gathered = gather_wide_weights(graph)
    assert wide(gathered, "c.w") == [[1, 0, 0, 0], [1, 0, 0, 2]]
    assert wide(gathered, "b.w") == [[0, 1, 1, 1]]
    np.testing.assert_array_equal(array(gathered, "a.w"), array(graph, "a.w")[[2, 4, 5, 0, 1, 3]])
    the_same(graph, gathered)


def test_an_idle_channel_shares_the_load() -> None:
    graph = changed(network(), "c.w", (1, 0, 0, 2), 255)
    graph = changed(graph, "c.w", (3, 0, 0, 2), 249)
    graph = changed(graph, "b.b", (4,), -10_000_000)
    graph = changed(graph, "c.w", (slice(None), 0, 0, 4), ZERO)
    gathered = gather_wide_weights(graph)
    assert wide(gathered, "c.w") == []
    pair = array(gathered, "c.w")[:, 0, 0, [2, 4]].astype(int) - ZERO
    assert pair[[1, 3]].tolist() == [[68, 67], [65, 64]]  # 135 and 129
    assert (pair[[0, 2, 4], 1] == 0).all()
    for name, copied in (("a.w", (4,)), ("b.w", (..., 4)), ("b.b", (4,))):
        source = tuple(2 if k == 4 else k for k in copied)
        np.testing.assert_array_equal(array(gathered, name)[copied], array(graph, name)[source])
    the_same(graph, gathered)


@pytest.mark.parametrize("seen", ["a.out", "b.out"])
def test_channels_that_others_see_keep_their_order(seen: str) -> None:
    graph = changed(changed(network(), "c.w", (1, 0, 0, 2), 255), "c.w", (1, 0, 0, 5), 250)
    open_graph = Graph("g", graph.tensors, graph.nodes, graph.inputs, [*graph.outputs, seen])
    gathered = gather_wide_weights(open_graph)
    assert all(gathered.tensors[n] is t for n, t in graph.tensors.items())


def test_one_wide_channel_stays_where_it_is() -> None:
    graph = changed(network(), "c.w", (1, 0, 0, 2), 255)
    gathered = gather_wide_weights(graph)
    assert all(np.array_equal(array(gathered, n), array(graph, n)) for n in ("a.w", "b.w", "c.w"))
