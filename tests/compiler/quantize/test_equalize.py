"""Equalization and bias correction: the function stays, the noise shrinks."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.quantize import quantize
from vdla.compiler.quantize.checks import check_samples
from vdla.compiler.quantize.equalize import equalize_channels
from vdla.compiler.reference import Interpreter

from .networks import OPEN, RELU, RELU6, FloatDraft, images, silent, uneven


@pytest.mark.parametrize("clip", [OPEN, RELU, RELU6])
def test_an_equalized_network_computes_what_it_did(clip):
    graph = uneven(clip)
    pixels = images(graph, 8)
    equal = equalize_channels(graph, check_samples(graph, pixels), silent)
    assert not np.array_equal(
        equal.tensors["depthwise.weight"].data, graph.tensors["depthwise.weight"].data
    )
    before, after = (Interpreter(g).run(pixels)["project.out"] for g in (graph, equal))
    np.testing.assert_allclose(after, before, atol=1e-5 * np.abs(before).max())


def test_channels_before_a_depthwise_layer_peak_alike():
    graph = uneven()
    pixels = images(graph, 8)
    equal = equalize_channels(graph, check_samples(graph, pixels), silent)

    def peaks(network):
        return Interpreter(network).run(pixels, keep_all=True)["expand.out"].max(axis=(0, 1, 2))

    assert peaks(graph).max() / peaks(graph).min() > 300
    # A gain of 2**8 at most: what is quieter than that stays so.
    assert peaks(equal).max() / peaks(equal).min() < peaks(graph).max() / peaks(graph).min() / 200
    assert peaks(equal).max() == pytest.approx(peaks(graph).max(), rel=1e-6)


def test_no_channel_is_raised_over_the_bound_of_relu6():
    net = FloatDraft((1, 4, 4, 2))
    gains = np.array([0.01, 0.5, 4.0, 20.0])
    x = net.conv("expand", "input", 4, 1, RELU6, gains)
    graph = net.finish(net.depthwise("depthwise", x, OPEN))
    pixels = images(graph, 8)
    equal = equalize_channels(graph, check_samples(graph, pixels), silent)
    before = graph.tensors["expand.weight"].data
    ratio = (equal.tensors["expand.weight"].data / before).reshape(4, -1)[:, 0]
    assert ratio[0] > 10
    assert ratio[3] == 1  # it reaches 6 as it is
    assert Interpreter(equal).run(pixels, keep_all=True)["expand.out"].max() <= 6


def test_equalization_pays_in_a_depthwise_network():
    graph = uneven()
    pixels = images(graph, 16)
    plain = quantize(graph, pixels).layers[-1]
    equal = quantize(graph, pixels, equalize=True).layers[-1]
    assert plain.name == equal.name == "project"
    assert equal.sqnr_db > plain.sqnr_db + 6


def test_what_two_layers_read_is_left():
    net = FloatDraft((1, 4, 4, 3))
    x = net.conv("a", "input", 4, clip=RELU, gains=np.array([0.1, 1, 1, 5]))
    graph = net.finish(net.add("sum", net.conv("b", x, 4), x))
    equal = equalize_channels(graph, check_samples(graph, images(graph)), silent)
    for name, tensor in graph.tensors.items():
        assert tensor.data is None or np.array_equal(tensor.data, equal.tensors[name].data)


def test_a_corrected_bias_keeps_the_mean():
    net = FloatDraft((1, 8, 8, 16))
    graph = net.finish(net.conv("conv", "input", 8, bias=False))
    # Values on one side of zero: rounding the weights then moves the mean.
    pixels = np.abs(images(graph, 16)) + 1

    def drift(**options):
        quantized = quantize(graph, pixels, ends="float", **options).graph
        error = Interpreter(quantized).run(pixels)["conv.out"] - truth
        return np.abs(error.mean(axis=(0, 1, 2))).max()

    truth = Interpreter(graph).run(pixels)["conv.out"]
    assert drift() < 0.2 * drift(bias_correction=False)
