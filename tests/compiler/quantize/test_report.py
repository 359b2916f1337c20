"""The report tells where noise comes in."""

from __future__ import annotations

from math import log10

import numpy as np
import pytest

from vdla.compiler.quantize import quantize

from .networks import FloatDraft, gated, images, residual


def test_a_tensor_of_evenly_spread_values_has_the_noise_of_its_step():
    net = FloatDraft((1, 64, 64, 1))
    graph = net.finish(net.max_pool("pool", "input"))
    pixels = np.random.default_rng(0).uniform(-1, 1, (4, 64, 64, 1))
    (pool,) = quantize(graph, pixels).layers
    # The maximum of four has the mean square 3/5 - 2*... worked out from its density
    # 4 F**3 f with F = (1 + y) / 2: E[y**2] = 7/15. A step of 2/255 has the noise step**2 / 12.
    expected = 10 * log10((7 / 15) / ((2 / 255) ** 2 / 12))
    assert pool.sqnr_db == pytest.approx(expected, abs=0.2)
    assert pool.alone_db == pool.sqnr_db


def test_each_layer_has_a_row_and_its_own_share():
    graph = residual()
    layers = quantize(graph, images(graph, 8)).layers
    assert [layer.name for layer in layers] == [n.name for n in graph.nodes]
    body = layers[1]
    assert body.alone_db > body.sqnr_db


def test_float_layers_add_nothing_of_their_own_but_carry_what_comes_in():
    graph = gated()
    rows = {layer.name: layer for layer in quantize(graph, images(graph, 8)).layers}
    assert (rows["sigmoid"].form, rows["first"].form) == ("float32", "int8")
    assert rows["gate"].sqnr_db < 60
