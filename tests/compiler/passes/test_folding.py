"""Constants, equal nodes, dead nodes, scales and activations: before, after, and equal results."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from tests.compiler.passes.nets import WINDOW, Net, assert_same, counts, ops, random_net
from vdla.compiler.graph import Graph, Quant
from vdla.compiler.passes import PASSES, run_passes
from vdla.errors import ModelError


def after(name: str, net: Net, *outputs: str) -> Graph:
    before = net.graph(*outputs)
    changed = PASSES[name](before)
    assert_same(before, changed)
    return changed


def test_constants_are_computed() -> None:
    net = Net()
    w = net.transpose(net.drawn(3, 3, 2, 4), 3, 0, 1, 2)
    x = net.op("conv2d", net.input(1, 5, 5, 2), w, **WINDOW)
    folded = after("fold_constants", net, x)
    assert ops(folded) == ["conv2d"]
    assert folded.tensors[folded.nodes[0].inputs[1]].is_constant


def test_a_dequantize_of_constants_is_computed_by_channels() -> None:
    net = Net()
    quant = Quant(np.float32([0.5, 2]), np.array([1, -1]), 0)
    w = net.constant(np.int8([[3, 5], [7, 9]]), quant)
    real = net.op("dequantize", w, dtype=np.float32)
    folded = after("fold_constants", net, net.op("mul", net.input(1, 2, 2), real))
    (constant,) = (t for t in folded.tensors.values() if t.is_constant)
    np.testing.assert_array_equal(constant.data, [[1, 2], [16, 20]])


def test_what_changes_nothing_is_left_out() -> None:
    net = Net()
    x = net.input(1, 4, 5, 1)
    y = net.op("reshape", x, shape=(1, 4, 5, 1))
    y = net.op("slice", y, begin=(0,) * 4, end=(1, 4, 5, 1), step=(1,) * 4)
    y = net.op("pad", y, paddings=((0, 0),) * 4, value=0.0, mode="constant")
    y = net.op("clip", net.op("cast", y, dtype=np.float32))
    y = net.op("expand", net.transpose(y, 0, 1, 2, 3), shape=(1, 4, 5, 1))
    assert ops(after("fold_constants", net, net.op("exp", y))) == ["exp"]


def test_a_flip_is_no_idle_slice() -> None:
    net = Net()
    y = net.op("slice", net.input(1, 4), begin=(0, 3), end=(1, -1), step=(1, -1))
    assert ops(after("fold_constants", net, net.op("exp", y))) == ["slice", "exp"]


def test_an_output_is_never_made_a_constant_or_an_input() -> None:
    net = Net()
    x = net.input(1, 4)
    same = net.op("reshape", x, shape=(1, 4))
    fixed = net.op("exp", net.drawn(1, 4))
    assert counts(after("fold_constants", net, same, fixed)) == {"reshape": 1, "exp": 1}


def test_equal_nodes_become_one() -> None:
    net = Net()
    x = net.input(1, 3, 4, 5)
    one, other = (net.transpose(x, 0, 2, 3, 1) for _ in range(2))
    c, d = (net.constant(np.float32([1, 2, 3])) for _ in range(2))
    y = net.op("sub", net.op("mul", one, c), net.op("mul", other, d))
    assert ops(after("common_subexpressions", net, y)) == ["transpose", "mul", "sub"]


def test_nodes_that_differ_stay() -> None:
    net = Net()
    x = net.input(1, 4)
    quants = [Quant(np.float32([s]), np.array([0])) for s in (0.1, 0.2)]
    ends = [net.op("quantize", x, dtype=np.int8, quant=q, rounding="even") for q in quants]
    ends += [net.op("relu", x, clip=(0.0, high)) for high in (6.0, inf)]
    ends += [net.op("mul", x, net.constant(v)) for v in (np.float32(1), np.float32([1]))]
    assert len(after("common_subexpressions", net, *ends).nodes) == 6


def test_two_outputs_of_one_value_stay_two() -> None:
    net = Net()
    x = net.input(1, 4)
    ends = [net.op("exp", x), net.op("exp", x)]
    assert ops(after("common_subexpressions", net, *ends)) == ["exp", "exp"]


def test_what_nobody_reads_goes() -> None:
    net = Net()
    x = net.input(1, 4)
    net.input(1, 9)  # an input stays, whoever reads it
    net.op("exp", net.op("tanh", x))
    kept = after("dead_code", net, net.op("relu", x))
    assert ops(kept) == ["relu"]
    assert set(kept.tensors) == {"x0", "x1", kept.outputs[0]}


WEIGHTED = {
    "conv2d": (4, 3, 3, 2),
    "conv_transpose2d": (4, 3, 3, 2),
    "dense": (4, 2),
    "depthwise_conv2d": (1, 3, 3, 4),
}


def weighted(net: Net, op: str, x: str, bias: bool) -> str:
    attrs: dict = {"keep_dims": True}
    if op != "dense":
        attrs = {**WINDOW}
    if op == "conv_transpose2d":
        attrs |= {"groups": 1, "output_padding": (0, 0)}
    b = [net.drawn(4)] if bias else []
    return net.op(op, x, net.drawn(*WEIGHTED[op]), *b, **attrs)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("op", WEIGHTED)
def test_batch_normalization_goes_into_weights_and_bias(op: str, bias: bool) -> None:
    net = Net()
    x = weighted(net, op, net.input(1, 6, 7, 2), bias)
    x = net.op("add", net.op("mul", x, net.drawn(1, 1, 1, 4)), net.drawn(4))
    x = net.op("sub", net.op("div", x, net.drawn(4)), net.drawn(1, 4))
    folded = after("fold_scales", net, net.op("tanh", x))
    assert ops(folded) == [op, "tanh"]
    assert len(folded.nodes[0].inputs) == 3


@pytest.mark.parametrize("op", ["conv2d", "dense", "depthwise_conv2d"])
def test_a_scale_before_goes_along_the_input_channels(op: str) -> None:
    net = Net()
    x = net.op("mul", net.input(1, 6, 7, 2), net.drawn(2))
    assert ops(after("fold_scales", net, weighted(net, op, x, True))) == [op]


def test_an_offset_before_a_padded_convolution_stays() -> None:
    net = Net()
    x = net.op("add", net.input(1, 6, 7, 2), net.drawn(2))
    assert ops(after("fold_scales", net, net.conv(x, 4))) == ["add", "conv2d"]


def test_chains_become_one_multiplication_and_one_addition() -> None:
    net = Net()
    x = net.input(1, 4, 5, 3)
    for _ in range(3):
        x = net.op("mul", net.op("add", x, net.drawn(3)), net.drawn(1, 3))
    folded = after("fold_scales", net, net.op("tanh", x))
    assert ops(folded) == ["mul", "add", "tanh"]


def test_what_is_read_elsewhere_is_clipped_or_runs_along_rows_stays() -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 5, 2), 5)
    ends = [net.op("mul", x, net.drawn(5)), net.op("relu", x, clip=(0.0, inf))]
    y = net.op("mul", net.op("conv2d", net.input(1, 4, 5, 2), net.drawn(5, 1, 1, 2),
                             **WINDOW, clip=(0.0, inf)), net.drawn(5))  # fmt: skip
    z = net.op("mul", net.conv(net.input(1, 4, 5, 2), 5), net.drawn(1, 4, 1, 1))
    folded = after("fold_scales", net, *ends, y, z)
    assert counts(folded)["mul"] == 3


def test_activations_go_into_the_operator_before() -> None:
    net = Net()
    x = net.op("relu", net.conv(net.input(1, 4, 5, 2), 5), clip=(0.0, inf))
    y = net.op("clip", net.op("add", x, x), clip=(-1.0, 1.0))
    y = net.op("relu", y, clip=(0.0, inf))
    folded = after("fold_activations", net, y)
    assert [(n.op, n.attrs["clip"]) for n in folded.nodes] == [
        ("conv2d", (0.0, inf)),
        ("add", (0.0, 1.0)),
    ]


def test_crossing_bounds_give_the_second() -> None:
    net = Net()
    x = net.op("clip", net.op("add", net.input(1, 4), net.drawn(4)), clip=(2.0, 3.0))
    x = net.op("clip", x, clip=(-1.0, 1.0))
    (node,) = after("fold_activations", net, x).nodes
    assert node.attrs["clip"] == (1.0, 1.0)


def test_an_activation_beside_another_reader_stays() -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 5, 2), 5)
    folded = after("fold_activations", net, net.op("relu", x, clip=(0.0, inf)), net.op("exp", x))
    assert counts(folded) == {"conv2d": 1, "relu": 1, "exp": 1}


def test_passes_can_be_left_out_by_name() -> None:
    net = Net()
    x = net.op("relu", net.conv(net.input(1, 4, 5, 2), 5), clip=(0.0, inf))
    graph = net.graph(x)
    assert ops(run_passes(graph)) == ["conv2d"]
    assert ops(run_passes(graph, without=["fold_activations"])) == ["conv2d", "relu"]
    assert run_passes(graph, without=list(PASSES)) is graph
    with pytest.raises(ModelError, match=r"must be one of settle_layouts, .*, not fold_all"):
        run_passes(graph, without=["fold_all"])


@pytest.mark.parametrize("seed", range(100, 140))
def test_random_networks_keep_their_results(seed: int) -> None:
    before = random_net(seed)
    assert_same(before, run_passes(before))
