"""Ranges, scales and weights: figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.graph import Quant
from vdla.compiler.quantize.integer import clip_levels
from vdla.compiler.quantize.ranges import CALIBRATIONS, Histogram, Range, find_ranges
from vdla.compiler.quantize.weights import quant_of, quantize_bias, quantize_weights

from .networks import RELU, FloatDraft, silent


def histogram_of(values):
    limits = (min(0.0, values.min()), max(0.0, values.max()))
    return Histogram(*limits, np.histogram(values, 4096, limits)[0])


def chosen(name, values, percentile=99.99):
    return CALIBRATIONS[name](histogram_of(values), percentile)


def test_minmax_takes_what_was_seen_rounded_outwards():
    net = FloatDraft((1, 2, 2, 1))
    graph = net.finish(net.relu("relu", "input"))
    image = np.array([-1.0, 0.5, 1.001, -3.0], np.float32).reshape(1, 2, 2, 1)
    ranges = find_ranges(graph, {"input": image.astype(np.float64)}, "minmax", 100, silent)
    # Ten significant bits of what lies in 1..2 are steps of 1/512.
    assert ranges["input"] == (-3.0, 513 / 512)
    assert ranges["relu.out"] == (0.0, 513 / 512)


def test_percentile_leaves_outliers_out():
    values = np.concatenate([np.linspace(0, 1, 99_900), np.full(100, 50.0)])
    low, high = chosen("percentile", values, 99.8)
    assert low == 0
    # 99.8 % of the values lie below 0.998; a bin is 50/4096 wide.
    assert high == pytest.approx(0.999, abs=50 / 4096)


def test_percentile_cuts_both_ends_alike():
    values = np.linspace(-2, 2, 100_001)
    assert chosen("percentile", values, 99) == pytest.approx((-1.96, 1.96), abs=1e-3)


def test_entropy_leaves_a_far_outlier_out_and_keeps_a_full_range():
    source = np.random.default_rng(0)
    normal = source.normal(0, 1, 200_000)
    low, high = chosen("entropy", np.append(normal, 60.0))
    assert 2.5 < high < 8
    assert low == pytest.approx(normal.min(), abs=0.1)
    uniform = source.uniform(0, 5, 200_000)
    assert chosen("entropy", uniform) == pytest.approx((0, 5), abs=0.05)


def test_entropy_cuts_nothing_off_a_tensor_of_few_values():
    values = np.random.default_rng(0).normal(0, 1, 300)
    assert chosen("entropy", values) == pytest.approx((values.min(), values.max()))


def test_scale_and_zero_point():
    quant = quant_of(Range(-1.0, 4.1))
    assert quant.scale[0] == np.float32(0.02)
    assert quant.zero_point[0] == -78  # -1 is 50 steps above -128
    assert quant_of(Range(0.0, 0.0)).scale[0] == 1


def test_weights_fill_their_channel():
    weight = np.array([[0.5, -1.27], [2.54, 0.02]])
    data, quant = quantize_weights(weight, 0, np.zeros(2), 0.1)
    assert data.tolist() == [[50, -127], [127, 1]]
    np.testing.assert_allclose(quant.scale, [0.01, 0.02], rtol=1e-6)
    assert quant.axis == 0


def test_a_silent_channel_with_a_bias_keeps_the_bias():
    data, quant = quantize_weights(np.zeros((1, 4)), 0, np.array([3.0]), 0.1)
    bias, step = quantize_bias(np.array([3.0]), quant, 0.1)
    assert not data.any()
    assert bias[0] * step.scale[0] == pytest.approx(3.0, rel=1e-6)
    assert bias[0] <= 2**30


def test_a_bias_too_large_for_its_scale_coarsens_the_weights():
    _, quant = quantize_weights(np.full((1, 4), 1e-6), 0, np.array([1e4]), 1e-3)
    bias, step = quantize_bias(np.array([1e4]), quant, 1e-3)
    assert bias[0] == pytest.approx(2**30, rel=1e-6)
    assert bias[0] * step.scale[0] == pytest.approx(1e4, rel=1e-6)


@pytest.mark.parametrize(
    ("clip", "expected"),
    [(RELU, (-28, 127)), ((0.0, 6.0), (-28, 32)), ((-np.inf, np.inf), (-128, 127))],
)
def test_clips_in_integers(clip, expected):
    assert clip_levels(clip, Quant(np.array([0.1], np.float32), np.array([-28]))) == expected
