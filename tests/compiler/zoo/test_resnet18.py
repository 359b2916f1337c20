"""The built-in ResNet-18: its topology, its calibration, and that nothing moves."""

from __future__ import annotations

import zlib
from collections import Counter

import numpy as np
import pytest

from vdla.compiler.graph import Quant
from vdla.compiler.reference import Interpreter
from vdla.compiler.zoo import resnet18, sample_image
from vdla.compiler.zoo.builder import INPUT_RANGE
from vdla.compiler.zoo.resnet import _RESNET18_RANGES


@pytest.fixture(scope="module")
def graph():
    return resnet18()


@pytest.fixture(scope="module")
def activations(graph):
    return Interpreter(graph).run(sample_image(1), keep_all=True)


# H = W of the input, channels in and out, window, stride, pad; occurrences; cycles at 256 MACs.
LAYERS = [
    ((56, 64, 64, 3, 1, 1), 4, 451_584),
    ((56, 64, 128, 3, 2, 1), 1, 225_792),
    ((56, 64, 128, 1, 2, 0), 1, 25_088),
    ((28, 128, 128, 3, 1, 1), 3, 451_584),
    ((28, 128, 256, 3, 2, 1), 1, 225_792),
    ((28, 128, 256, 1, 2, 0), 1, 25_088),
    ((14, 256, 256, 3, 1, 1), 3, 451_584),
    ((14, 256, 512, 3, 2, 1), 1, 225_792),
    ((14, 256, 512, 1, 2, 0), 1, 25_088),
    ((7, 512, 512, 3, 1, 1), 3, 451_584),
]


def test_offloaded_convolutions(graph):
    found = Counter()
    for node in graph.nodes:
        if node.op != "conv2d" or node.name == "conv1":
            continue
        x, w = (graph.tensors[name] for name in node.inputs[:2])
        key = (x.shape[1], w.shape[3], w.shape[0], w.shape[1])
        found[(*key, node.attrs["strides"][0], node.attrs["padding"][0][0])] += graph.macs(node)
    assert found == {key: times * cycles * 256 for key, times, cycles in LAYERS}
    assert sum(found.values()) == 256 * 6_623_232


def test_the_rest_of_the_topology(graph):
    assert Counter(n.op for n in graph.nodes) == {
        "conv2d": 20,
        "add": 8,
        "max_pool2d": 1,
        "mean": 1,
        "dense": 1,
    }
    first = graph.node("conv1")
    assert graph.tensors["conv1.weight"].shape == (64, 7, 7, 3)
    assert (first.attrs["strides"], first.attrs["padding"]) == ((2, 2), ((3, 3), (3, 3)))
    maxpool = graph.node("maxpool").attrs
    assert (maxpool["window"], maxpool["strides"]) == ((3, 3), (2, 2))
    assert maxpool["padding"] == ((1, 1), (1, 1))
    assert graph.tensors["maxpool.out"].shape == (1, 56, 56, 64)
    assert graph.tensors["mean.out"].shape == (1, 512)
    assert graph.tensors["dense.out"].shape == (1, 1000)
    assert set(graph.node("layer2_0_add").inputs) == {
        "layer2_0_conv2.out",
        "layer2_0_downsample.out",
    }
    assert set(graph.node("layer2_1_add").inputs) == {"layer2_1_conv2.out", "layer2_0_add.out"}
    # 118,013,952 + 1,695,547,392 + 512,000
    assert sum(graph.macs(n) for n in graph.nodes) == 1_814_073_344


def test_quantization_is_tflite_like(graph):
    for node in graph.nodes:
        output = graph.output_tensor(node)
        assert output.dtype == np.int8
        assert output.quant.per_tensor
        assert output.quant.zero_point[0] != 0
        if node.op in ("conv2d", "dense"):
            weight = graph.tensors[node.inputs[1]]
            assert weight.quant.axis == 0
            assert weight.quant.scale.size == weight.shape[0]
            assert np.abs(weight.data.astype(int)).max() == 127
            assert np.unique(weight.quant.scale).size > 0.9 * weight.shape[0]
        if node.op == "add":
            lhs, rhs = (t.quant for t in graph.input_tensors(node))
            assert lhs.scale != rhs.scale
            assert node.attrs["clip"] == (-128, 127)


def test_activations_are_spread(graph, activations):
    for node in graph.nodes:
        values = activations[node.outputs[0]]
        assert np.unique(values).size > 100, node.name
        assert (values == 127).mean() < 0.001, node.name


def test_the_ranges_are_those_of_the_float_network():
    real = resnet18(quantized=False)
    low, high = INPUT_RANGE
    scale = (high - low) / 255
    pixels = (sample_image().astype(np.float64) - round(-128 - low / scale)) * scale
    values = Interpreter(real).run(pixels.astype(np.float32), keep_all=True)
    for name, limits in _RESNET18_RANGES.items():
        found = np.percentile(values[f"{name}.out"], [0.02, 99.98])
        np.testing.assert_allclose(limits, found, atol=0.01, err_msg=name)


def test_the_integer_network_follows_the_float_one(graph, activations):
    real = resnet18(quantized=False)
    source: Quant = graph.tensors["input"].quant
    pixels = (sample_image(1).astype(np.float64) - source.zero_point) * source.scale
    logits = Interpreter(real).run(pixels.astype(np.float32))["dense.out"]
    output = graph.tensors["dense.out"].quant
    approximate = (activations["dense.out"] - output.zero_point) * output.scale
    assert np.corrcoef(logits.ravel(), approximate.ravel())[0, 1] > 0.99


def test_nothing_moves(graph, activations):
    # LiteRT 2.3.0's reference kernels gave outputs with this checksum.
    weights = 0
    for tensor in graph.tensors.values():
        if tensor.is_constant:
            weights = zlib.crc32(tensor.data.tobytes(), weights)
    outputs = zlib.crc32(activations["dense.out"].tobytes())
    assert (weights, outputs) == (3278448934, 2621937735)
