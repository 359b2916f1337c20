"""What the accelerator does not take, and what fits it at no tiling: each with its reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.ops import nodes
from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.ops import Scheduling, lower_node, unsupported
from vdla.config import PYNQ_Z1, TINY, Config
from vdla.errors import LoweringError


def refusal(graph: Graph, config: Config = PYNQ_Z1) -> str | None:
    return unsupported(graph, graph.nodes[0], config)


def with_tensor(graph: Graph, name: str, **changes: object) -> Graph:
    tensors = {**graph.tensors, name: replace(graph.tensors[name], **changes)}  # type: ignore[arg-type]
    return Graph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)


def test_a_window_past_every_buffer() -> None:
    graph = nodes.conv2d((1, 100, 100, 4), 4, (100, 100))
    with pytest.raises(LoweringError) as caught:
        lower_node(graph, graph.nodes[0], TINY)
    assert str(caught.value) == (
        "A layer's smallest tile must fit the scratchpads; a 100x100 window needs 10000 of 512 inp "
        "entries, 10000 of 256 wgt entries and 4 of 512 acc entries on tiny: enlarge the buffers "
        "or place the layer on the cpu."
    )


def test_a_pooling_window_past_every_buffer() -> None:
    graph = nodes.pool("max_pool2d", (1, 40, 40, 4), (40, 40))
    with pytest.raises(LoweringError) as caught:
        lower_node(graph, graph.nodes[0], TINY, Scheduling(vthreads=1))
    assert str(caught.value) == (
        "A pooling tile must fit the scratchpads; a 40x40 window needs 1641 of 512 acc entries and "
        "1600 of 512 inp entries a virtual thread on tiny: enlarge acc_bytes and inp_bytes or "
        "place the layer on the cpu."
    )


def test_an_addition_past_the_accumulator() -> None:
    small = TINY.replace(name="small", acc_bytes=128)
    graph = nodes.add((1, 4, 4, 4))
    with pytest.raises(LoweringError, match="8 acc entries for 6 parameters and 4 operands"):
        lower_node(graph, graph.nodes[0], small)


def test_an_operator_of_the_cpu() -> None:
    x, y = (nodes.activation(name, (1, 10), 0.5, 0) for name in "xy")
    graph = Graph(
        "g", [x, y], [Node("s", "softmax", ("x",), ("y",), {"axis": 1, "beta": 1.0})], ["x"], ["y"]
    )
    assert refusal(graph) == "the accelerator has no softmax"


def test_a_multiplier_of_one_and_more() -> None:
    graph = with_tensor(nodes.dense((1, 20), 3), "y", quant=nodes.quant(0.25))
    assert refusal(graph) == "a multiplier is not below 1"
    assert refusal(nodes.mean((1, 2, 2, 3), scales=(9.0, 0.2))) == "its multiplier is not below 1"
    assert (
        refusal(nodes.rescale("relu", (1, 3), scales=(0.5, 0.2))) == "a multiplier is not below 1"
    )


def test_a_slope_above_one() -> None:
    assert refusal(nodes.leaky((1, 3), 1.5)) == "its slope is not in 0..1"
    assert refusal(nodes.leaky((1, 3), 0.1, scales=(0.5, 0.01))) is None


def test_weights_that_are_computed() -> None:
    graph = nodes.dense((1, 20), 3)
    tensors = {**graph.tensors, "w": replace(graph.tensors["w"], data=None)}
    moved = Graph("g", tensors, graph.nodes, ["x", "w"], ["y"])
    assert refusal(moved) == "its weights are not constant"


def test_an_average_over_channels() -> None:
    x = nodes.activation("x", (1, 4, 4, 8), 0.5, 0)
    attrs = {"axes": (3,), "keep_dims": True, "rounding": "double"}
    graph = nodes.one_node("mean", [x], (1, 4, 4, 1), 0.6, 0, attrs)
    assert refusal(graph) == "it averages other dimensions than rows and columns"


def test_additions_that_are_not_of_two_like_activations() -> None:
    attrs = {"clip": (-128, 127), "rounding": "double"}
    a, b = nodes.activation("a", (1, 4, 4, 8), 0.5, 0), nodes.activation("b", (1, 1, 1, 8), 0.5, 0)
    wide = nodes.one_node("add", [a, b], (1, 4, 4, 8), 0.6, 0, attrs)
    assert refusal(wide) == "its inputs differ in shape"
    constant = Tensor("b", a.shape, a.dtype, a.quant, np.ones(a.shape, np.int8))
    added = nodes.one_node("add", [a, constant], a.shape, 0.6, 0, attrs)
    assert refusal(added) == "an input is constant"


def test_activations_of_other_types() -> None:
    graph = nodes.pool("max_pool2d", (1, 4, 4, 8), (2, 2))
    wide = {name: replace(t, dtype=np.dtype(np.int16)) for name, t in graph.tensors.items()}
    other = Graph("g", wide, graph.nodes, graph.inputs, graph.outputs)
    assert refusal(other) == "its activations are not int8 or uint8"
