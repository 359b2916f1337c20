"""What the integer network looks like."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from vdla.compiler.quantize import quantize
from vdla.compiler.reference import Interpreter

from .networks import RELU, RELU6, FloatDraft, gated, images, residual


def test_everything_with_an_integer_form_has_it():
    graph = residual()
    quantized = quantize(graph, images(graph)).graph
    assert [n.name for n in quantized.nodes] == [n.name for n in graph.nodes]
    assert quantized.inputs == graph.inputs
    assert quantized.outputs == graph.outputs
    for node in quantized.nodes:
        assert quantized.output_tensor(node).dtype == np.int8
    for name in ("stem", "body", "dense"):
        data, weight, bias = quantized.input_tensors(quantized.node(name))
        assert (weight.dtype, weight.quant.axis, np.abs(weight.data).max()) == (np.int8, 0, 127)
        assert not weight.quant.zero_point.any()
        assert bias.dtype == np.int32
        np.testing.assert_allclose(bias.quant.scale, weight.quant.scale * data.quant.scale, 1e-6)
    softmax = quantized.tensors["softmax.out"].quant
    assert (softmax.scale[0], softmax.zero_point[0]) == (1 / 256, -128)
    # A pool picks among integers, so they mean what they did.
    assert quantized.tensors["pool.out"].quant.same_as(quantized.tensors["sum.out"].quant)


def test_a_rectified_tensor_spends_no_code_below_zero():
    graph = residual()
    quantized = quantize(graph, images(graph)).graph
    assert quantized.tensors["stem.out"].quant.zero_point[0] == -128
    assert quantized.node("stem").attrs["clip"] == (-128, 127)


@pytest.mark.parametrize(("alpha", "dtype"), [(0.1, np.int8), (-0.1, np.float32)])
def test_a_leaky_relu_is_integer_unless_its_slope_is_negative(alpha, dtype):
    net = FloatDraft((1, 4, 4, 3))
    x = net.conv("conv", "input", 4)
    graph = net.finish(net.node("leaky", "leaky_relu", (x,), (1, 4, 4, 4), {"alpha": alpha}))
    quantized = quantize(graph, images(graph)).graph
    assert quantized.output_tensor(quantized.node("leaky")).dtype == dtype


def test_a_clip_stands_at_the_integers_of_its_bounds():
    net = FloatDraft((1, 4, 4, 3))
    graph = net.finish(net.conv("conv", "input", 4, clip=(-0.5, 0.25)))
    quantized = quantize(graph, 10 * images(graph)).graph
    # The range is just the clip's: 255 steps over 0.75, and -0.5 is 170 steps below zero.
    assert quantized.tensors["conv.out"].quant.zero_point[0] == 42
    assert quantized.node("conv").attrs["clip"] == (-128, 127)


def test_an_activation_function_joins_what_feeds_it():
    net = FloatDraft((1, 4, 4, 3))
    x = net.relu("relu", net.conv("conv", "input", 4))
    x = net.relu("relu6", x, RELU6)
    shared = net.conv("shared", x, 4)
    graph = net.finish(net.relu("apart", shared), shared)
    quantized = quantize(graph, images(graph)).graph
    # What several read keeps its negative half; its relu stays an operator.
    assert [n.name for n in quantized.nodes] == ["conv", "shared", "apart"]
    assert quantized.node("conv").attrs["clip"][0] == -128


def test_what_has_no_integer_form_stays_float_between_two_nodes():
    graph = gated()
    quantized = quantize(graph, images(graph)).graph
    assert Counter(n.op for n in quantized.nodes) == {
        "conv2d": 2,
        "dequantize": 1,
        "sigmoid": 1,
        "mul": 1,
        "quantize": 1,
    }
    assert quantized.output_tensor(quantized.node("gate")).dtype == np.float32
    assert quantized.node("second").inputs[0] == "gate.out.int8"


def test_a_residual_around_a_float_operator_is_quantized_once():
    net = FloatDraft((1, 4, 4, 4))
    x = net.node("tanh", "tanh", (net.conv("a", "input", 4),), (1, 4, 4, 4), {})
    graph = net.finish(net.add("sum", x, net.conv("b", x, 4), RELU))
    quantized = quantize(graph, images(graph)).graph
    assert Counter(n.op for n in quantized.nodes)["quantize"] == 1
    assert quantized.output_tensor(quantized.node("sum")).dtype == np.int8


def test_float_ends_take_and_give_what_the_float_network_does():
    graph = residual()
    quantized = quantize(graph, images(graph), ends="float").graph
    assert quantized.inputs == graph.inputs
    assert quantized.outputs == graph.outputs
    assert {quantized.tensors[n].dtype for n in (*graph.inputs, *graph.outputs)} == {
        np.dtype(np.float32)
    }
    whole = quantize(graph, images(graph)).graph
    pixels = images(graph, seed=2)
    source, target = whole.tensors["input"].quant, whole.tensors["softmax.out"].quant
    levels = np.clip(np.rint(pixels / source.scale) + source.zero_point, -128, 127)
    found = Interpreter(whole).run(levels.astype(np.int8))["softmax.out"]
    expected = (found.astype(int) - target.zero_point) * target.scale
    np.testing.assert_allclose(Interpreter(quantized).run(pixels)["softmax.out"], expected)


def test_weights_that_two_layers_share_get_a_bias_for_each():
    net = FloatDraft((1, 4, 4, 4))
    x = net.conv("a", "input", 4, clip=RELU)
    first = net.nodes[-1]
    again = net.node("b", "conv2d", (x, *first.inputs[1:]), (1, 4, 4, 4), first.attrs)
    graph = net.finish(again)
    quantized = quantize(graph, images(graph), bias_correction=False).graph
    ours, theirs = (quantized.input_tensors(quantized.node(name)) for name in "ab")
    assert np.array_equal(ours[1].data, theirs[1].data)
    assert not np.array_equal(ours[2].quant.scale, theirs[2].quant.scale)


def test_a_constant_summand_becomes_integers():
    net = FloatDraft((1, 4, 4, 4))
    # One a place: one a channel would join the bias.
    net.constant("offset", np.linspace(-1, 3, 16).reshape(1, 4, 4, 1))
    graph = net.finish(net.add("sum", net.conv("a", "input", 4), "offset"))
    quantized = quantize(graph, images(graph)).graph
    constant = quantized.tensors[quantized.node("sum").inputs[1]]
    assert constant.dtype == np.int8
    real = (constant.data.astype(int) - constant.quant.zero_point) * constant.quant.scale
    np.testing.assert_allclose(real.ravel(), np.linspace(-1, 3, 16), atol=4 / 255)


@pytest.mark.parametrize("calibration", ["minmax", "percentile", "entropy"])
def test_the_result_is_close_and_the_same_each_time(calibration):
    graph = residual()
    first = quantize(graph, images(graph, 16), calibration=calibration)
    second = quantize(graph, images(graph, 16), calibration=calibration)
    for name, tensor in first.graph.tensors.items():
        other = second.graph.tensors[name]
        assert tensor.quant is None or tensor.quant.same_as(other.quant)
        assert tensor.data is None or np.array_equal(tensor.data, other.data)
    assert min(layer.sqnr_db for layer in first.layers) > 18
