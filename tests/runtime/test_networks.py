"""Trained networks against LiteRT's outputs, and ResNet-18 against the interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.compiler.graph import Graph, import_tflite
from vdla.compiler.zoo import sample_image
from vdla.runtime.network import Network
from vdla.runtime.run import Run


def before_softmax(path: Path) -> Network:
    """Compile a classifier without its last node, whose input the stored logits are."""
    graph = import_tflite(path)
    last = graph.nodes[-1]
    assert last.op == "softmax"
    return vdla.compile(
        Graph(graph.name, graph.tensors, graph.nodes[:-1], graph.inputs, last.inputs)
    )


@pytest.fixture(scope="module")
def resnet8(shared_data: Path) -> Network:
    return before_softmax(shared_data / "mlperf_tiny" / "resnet8_int8.tflite")


@pytest.fixture(scope="module")
def mobilenet(shared_data: Path) -> Network:
    return before_softmax(shared_data / "coral" / "mobilenet_v1_0.25_128_quant.tflite")


@pytest.fixture(scope="module")
def wake_words(shared_data: Path) -> Network:
    return before_softmax(shared_data / "mlperf_tiny" / "vww96_int8.tflite")


def centred(pixels: np.ndarray) -> np.ndarray:
    return (pixels.astype(np.int16) - 128).astype(np.int8)


def logits(run: Run, images: int) -> np.ndarray:
    (output,) = run.outputs.values()
    return output.reshape(images, -1)


@pytest.mark.slow
def test_resnet8_on_all_images_of_the_functional_model(resnet8: Network, shared_data: Path) -> None:
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    run = resnet8.run(centred(data["images"]), device="functional")
    found = logits(run, 500)
    np.testing.assert_array_equal(found, data["resnet8_int8_litert_logits"])
    assert (found.argmax(axis=1) == data["labels"]).mean() == 0.744


def test_resnet8_on_the_cycle_model(resnet8: Network, shared_data: Path) -> None:
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    run = resnet8.run(centred(data["images"][:20]), check=True)
    np.testing.assert_array_equal(logits(run, 20), data["resnet8_int8_litert_logits"][:20])
    assert run.bit_exact, run.first_difference
    assert run.summary()["mac_utilization"] > 0.5


def test_resnet8_leaves_the_cpu_what_brings_the_image_in(resnet8: Network) -> None:
    on_cpu = [layer.op for layer in resnet8.module.layers if layer.device == "cpu"]
    assert on_cpu == ["unfold"]


@pytest.mark.slow
def test_visual_wake_words_on_the_functional_model(wake_words: Network, shared_data: Path) -> None:
    data = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    run = wake_words.run(centred(data["images_96"]), device="functional")
    np.testing.assert_array_equal(logits(run, 100), data["vww96_int8_litert_logits"])


def test_visual_wake_words_on_the_cycle_model(wake_words: Network, shared_data: Path) -> None:
    data = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    run = wake_words.run(centred(data["images_96"][:10]), check=True)
    np.testing.assert_array_equal(logits(run, 10), data["vww96_int8_litert_logits"][:10])
    assert run.bit_exact, run.first_difference


@pytest.mark.slow
def test_mobilenet_on_all_images_of_the_functional_model(
    mobilenet: Network, shared_data: Path
) -> None:
    data = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    run = mobilenet.run(data["images_128"], device="functional")
    np.testing.assert_array_equal(logits(run, 100), data["mobilenet_v1_025_litert_logits"])


def test_mobilenet_on_the_cycle_model(mobilenet: Network, shared_data: Path) -> None:
    data = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    run = mobilenet.run(data["images_128"][:10], check=True)
    np.testing.assert_array_equal(logits(run, 10), data["mobilenet_v1_025_litert_logits"][:10])
    assert run.bit_exact, run.first_difference


def test_mobilenet_offloads_all_that_multiplies(mobilenet: Network) -> None:
    on_cpu = {layer.op for layer in mobilenet.module.layers if layer.device == "cpu"}
    assert on_cpu <= {"unfold", "space_to_depth"}


def test_weights_beyond_int8_take_3_percent_of_the_cycles_at_most(
    mobilenet: Network, shared_data: Path
) -> None:
    """Against the same network with those weights brought into reach of their zero point."""
    graph = import_tflite(shared_data / "coral" / "mobilenet_v1_0.25_128_quant.tflite")
    tensors, beyond = dict(graph.tensors), 0
    for node in graph.nodes:
        if node.op in ("conv2d", "depthwise_conv2d"):
            weight = tensors[node.inputs[1]]
            assert weight.data is not None
            assert weight.quant is not None
            zero = int(weight.quant.zero_point[0])
            reached = np.clip(weight.data.astype(np.int16), zero - 128, zero + 127)
            reached = reached.astype(np.uint8)
            beyond += int((reached != weight.data).any())
            tensors[weight.name] = replace(weight, data=reached)
    assert beyond > 20
    without = vdla.compile(
        Graph(graph.name, tensors, graph.nodes[:-1], graph.inputs, graph.nodes[-1].inputs)
    )
    image = np.load(shared_data / "images" / "imagenet_sample_100.npz")["images_128"][:1]
    cycles, least = mobilenet.run(image).cycles, without.run(image).cycles
    assert cycles is not None
    assert least is not None
    assert least < cycles <= 1.03 * least


def test_a_float_network_runs_on_the_cpu(shared_data: Path) -> None:
    network = vdla.compile(shared_data / "mlperf_tiny" / "resnet8_float.tflite")
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    run = network.run(data["images"][:20].astype(np.float32), check=True)
    (output,) = run.outputs.values()
    np.testing.assert_allclose(output, data["resnet8_float_litert"][:20], rtol=1e-3, atol=1e-5)
    assert run.bit_exact


@pytest.mark.slow
def test_resnet18_on_the_cycle_model() -> None:
    network = vdla.compile("resnet18")
    on_cpu = [layer.name for layer in network.module.layers if layer.device == "cpu"]
    assert on_cpu == ["conv1.unfold"]
    run = network.run(sample_image(), check=True)
    assert run.bit_exact, run.first_difference
    summary = run.summary()
    assert summary["mac_cycles_ideal"] == 7_086_224
    assert run.cycles == 7_928_553
    assert sum(layer["cycles"] or 0 for layer in summary["layers"]) == run.cycles
