"""The interpreter against LiteRT 2.3.0's reference kernels, to the bit.

``litert_cases.npz`` holds, for each case, a model of one operator with random constants
(``<case>.model``, the bytes of a TFLite file), random inputs (``<case>.input_<i>``) and what
LiteRT's ``OpResolverType.BUILTIN_REF`` made of them (``<case>.output``); ``make_litert_cases.py``
writes it. The trained networks and
their outputs are described in the README of the shared data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vdla.compiler.graph import import_tflite
from vdla.compiler.reference import Interpreter

CASES = np.load(Path(__file__).with_name("litert_cases.npz"))
NAMES = sorted({key.split(".")[0] for key in CASES})


@pytest.mark.parametrize("name", NAMES)
def test_operator(name, tmp_path):
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(CASES[f"{name}.model"].tobytes())
    graph = import_tflite(path)
    inputs = {key: CASES[f"{name}.input_{i}"] for i, key in enumerate(graph.inputs)}
    output = Interpreter(graph).run(inputs)[graph.outputs[0]]
    np.testing.assert_array_equal(output, CASES[f"{name}.output"])


def test_the_cases_cover_every_operator(tmp_path):
    seen = set()
    for name in NAMES:
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(CASES[f"{name}.model"].tobytes())
        seen |= {node.op for node in import_tflite(path).nodes}
    assert seen == {
        "add",
        "avg_pool2d",
        "conv2d",
        "dense",
        "depthwise_conv2d",
        "dequantize",
        "max_pool2d",
        "mean",
        "pad",
        "quantize",
        "relu",
        "relu6",
        "softmax",
    }


def run_to_logits(path, images):
    graph = import_tflite(path)
    values = Interpreter(graph).run(images, keep_all=True)
    return values[graph.nodes[-1].inputs[0]], values[graph.outputs[0]]


def test_resnet8_agrees_on_500_of_500_images(shared_data):
    truth = np.load(shared_data / "images" / "cifar10_test_500.npz")
    images = (truth["images"].astype(np.int16) - 128).astype(np.int8)
    logits, output = run_to_logits(shared_data / "mlperf_tiny" / "resnet8_int8.tflite", images)
    assert (logits == truth["resnet8_int8_litert_logits"]).all(axis=1).sum() == 500
    assert (output == truth["resnet8_int8_litert"]).all(axis=1).sum() == 500
    assert (output.argmax(axis=1) == truth["labels"]).mean() == 0.744


def test_visual_wake_words_agree_on_100_of_100_images(shared_data):
    truth = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    images = (truth["images_96"].astype(np.int16) - 128).astype(np.int8)
    logits, output = run_to_logits(shared_data / "mlperf_tiny" / "vww96_int8.tflite", images)
    assert (logits == truth["vww96_int8_litert_logits"]).all(axis=1).sum() == 100
    assert (output == truth["vww96_int8_litert"]).all(axis=1).sum() == 100


def test_uint8_mobilenet_agrees_on_100_of_100_images(shared_data):
    truth = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    path = shared_data / "coral" / "mobilenet_v1_0.25_128_quant.tflite"
    logits, output = run_to_logits(path, truth["images_128"])
    assert (logits == truth["mobilenet_v1_025_litert_logits"]).all(axis=1).sum() == 100
    assert (output == truth["mobilenet_v1_025_litert"]).all(axis=1).sum() == 100
    # Class 0 of the network is the background.
    assert (output.argmax(axis=1) - 1 == truth["labels"]).sum() == 53


def test_float_resnet8_agrees_within_float32(shared_data):
    truth = np.load(shared_data / "images" / "cifar10_test_500.npz")
    images = truth["images"].astype(np.float32)
    _, output = run_to_logits(shared_data / "mlperf_tiny" / "resnet8_float.tflite", images)
    np.testing.assert_allclose(output, truth["resnet8_float_litert"], atol=1e-5)
    assert (output.argmax(axis=1) == truth["labels"]).mean() == 0.752
