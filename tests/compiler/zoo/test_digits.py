"""The digits network: what is in the package, and how it was trained."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from vdla.compiler.reference import Interpreter
from vdla.compiler.zoo import digits, digits_held_out
from vdla.compiler.zoo.builder import RELU, Builder
from vdla.compiler.zoo.digits import HELD_OUT, MODEL, train


def test_the_files_are_small():
    assert MODEL.stat().st_size + HELD_OUT.stat().st_size < 300_000


def test_the_network_takes_pixels_and_reads_what_it_was_not_shown():
    graph = digits()
    source = graph.tensors["input"]
    assert (source.shape, source.dtype) == ((1, 8, 8, 1), np.int8)
    assert source.quant.scale[0] == pytest.approx(1 / 255)
    assert source.quant.zero_point[0] == -128
    assert {graph.output_tensor(n).dtype for n in graph.nodes} == {np.dtype(np.int8)}
    images, labels = digits_held_out()
    scores = Interpreter(graph).run(images)[graph.outputs[0]]
    assert (scores.argmax(axis=1) == labels).mean() >= 0.97


def test_what_is_held_out_is_scikit_learns_and_was_not_trained_on():
    every, classes = load_digits(return_X_y=True)
    parts = train.split()
    assert len(parts.train_images) == 1347
    images, labels = digits_held_out()
    assert len(images) == 450
    # -128 + 255/16 for each of 16 shades, rounded.
    shades = np.rint((images[..., 0].astype(float) + 128) * 16 / 255).astype(np.uint8)
    assert np.array_equal(shades, parts.held_out_images)
    assert np.array_equal(labels, parts.held_out_labels)

    def rows(some, theirs):
        flat = some.reshape(len(some), 64).tolist()
        return sorted((*row, int(label)) for row, label in zip(flat, theirs, strict=True))

    both = rows(parts.train_images, parts.train_labels) + rows(shades, labels)
    assert sorted(both) == rows(every.astype(int), classes)


def test_gradients_are_those_of_differences():
    net = Builder("small", (1, 8, 8, 1))
    x = net.conv("conv1", "input", 3, 3, 1, RELU)
    x = net.conv("conv2", x, 4, 3, 2, RELU)
    x = net.conv("conv3", x, 5, 3, 2, RELU)
    graph = net.finish(net.dense("dense", net.mean("mean", x), 10))
    weights = {
        t.name: t.data.astype(np.float64) for t in graph.tensors.values() if t.data is not None
    }
    source = np.random.default_rng(0)
    images, labels = source.random((2, 8, 8, 1)), np.array([3, 8])

    def loss(values):
        tensors = [
            t
            if t.data is None
            else type(t)(t.name, t.shape, np.dtype(np.float64), None, values[t.name])
            for t in graph.tensors.values()
        ]
        double = [type(t)(t.name, t.shape, np.dtype(np.float64), None, t.data) for t in tensors]
        network = type(graph)("small", double, graph.nodes, ["input"], graph.outputs)
        logits = Interpreter(network).run(images)[graph.outputs[0]]
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return -np.log(chances[[0, 1], labels]).mean()

    found = train._gradients(weights, images, labels)
    assert set(found) == set(weights)
    for name, gradient in found.items():
        place = tuple(source.integers(0, d) for d in gradient.shape)
        ends = []
        for step in (1e-5, -1e-5):
            moved = {key: value.copy() for key, value in weights.items()}
            moved[name][place] += step
            ends.append(loss(moved))
        expected = (ends[0] - ends[1]) / 2e-5
        assert gradient[place] == pytest.approx(expected, rel=1e-4, abs=1e-8), name
