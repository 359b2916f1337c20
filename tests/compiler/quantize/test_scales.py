"""Channelwise factors and offsets become depthwise convolutions, where that pays."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.quantize import quantize
from vdla.compiler.quantize.scales import scales_as_depthwise
from vdla.compiler.reference import Interpreter

from .networks import OPEN, RELU, FloatDraft, images


def scaled(*, factors=(4,), offsets=(4,), sigmoid=False, turned=False):
    """concat -> mul -> add (ReLU) -> conv2d, as DenseNet normalizes; 4 channels."""
    net = FloatDraft((1, 5, 6, 3))
    halves = [net.conv(name, "input", 2) for name in ("left", "right")]
    x = net.node("joined", "concat", tuple(halves), (1, 5, 6, 4), {"axis": 3})
    if sigmoid:
        x = net.node("gate", "sigmoid", (x,), (1, 5, 6, 4), {})
    f = net.constant("f", net.source.uniform(-1.5, 1.5, factors))
    y = net.node("mul", "mul", (f, x) if turned else (x, f), (1, 5, 6, 4), {})
    if offsets:
        y = net.add("add", y, net.constant("s", net.source.normal(0, 0.5, offsets)), RELU)
    return net.finish(net.conv("last", y, 3, 1))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(4,), (1, 1, 1, 4)])
def test_a_factor_and_an_offset_become_one_depthwise_convolution(shape, turned):
    graph = scaled(factors=shape, turned=turned)
    changed = scales_as_depthwise(graph)
    assert [n.op for n in changed.nodes] == ["conv2d"] * 2 + ["concat"] + [
        "depthwise_conv2d",
        "conv2d",
    ]
    node = changed.node("add")
    assert node.attrs["clip"] == RELU
    _, weight, bias = changed.input_tensors(node)
    np.testing.assert_array_equal(weight.data, graph.tensors["f"].data.reshape(1, 1, 1, 4))
    np.testing.assert_array_equal(bias.data, graph.tensors["s"].data)
    pixels = images(graph, 2)
    before, after = (Interpreter(g).run(pixels)["last.out"] for g in (graph, changed))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_a_factor_alone_becomes_one_without_a_bias():
    changed = scales_as_depthwise(scaled(offsets=None))
    node = changed.node("mul")
    assert (node.op, len(node.inputs), node.attrs["clip"]) == ("depthwise_conv2d", 2, OPEN)


def test_an_offset_that_others_are_added_to_stays():
    graph = scaled(offsets=(5, 6, 1))
    assert [n.op for n in scales_as_depthwise(graph).nodes][3:] == [
        "depthwise_conv2d",
        "add",
        "conv2d",
    ]


@pytest.mark.parametrize(
    "graph",
    [scaled(factors=(1,)), scaled(factors=(5, 6, 1)), scaled(factors=(1, 5, 6, 4))],
    ids=["scalar", "places", "all"],
)
def test_other_factors_stay(graph):
    assert [n.op for n in scales_as_depthwise(graph).nodes] == [n.op for n in graph.nodes]


def test_a_float_stretch_stays_whole():
    graph = scaled(sigmoid=True)
    assert [n.op for n in scales_as_depthwise(graph).nodes] == [n.op for n in graph.nodes]


def test_the_quantized_network_computes_nothing_on_floats():
    graph = scaled()
    quantized = quantize(graph, images(graph, 4))
    kinds = {quantized.graph.output_tensor(node).dtype for node in quantized.graph.nodes}
    assert kinds == {np.dtype(np.int8)}
    # A weight a channel, with a scale a channel: the largest level, of the factor's sign.
    weight = quantized.graph.tensors["add.weight"]
    np.testing.assert_array_equal(
        weight.data.reshape(-1), 127 * np.sign(graph.tensors["f"].data).astype(np.int8)
    )
    assert quantized.layers[-1].sqnr_db > 30
