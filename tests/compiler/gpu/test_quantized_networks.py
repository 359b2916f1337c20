"""Quantized networks as kernels, to the bit of LiteRT's logits and of the interpreter, on PoCL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import QuantFormat

from tests.compiler.onnx.resnet8 import quantized_resnet8
from vdla.compiler.gpu import compile_network
from vdla.compiler.graph import Graph, import_tflite
from vdla.compiler.ir.stmt import Intrinsic
from vdla.compiler.onnx import import_onnx
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.gpu.kernel import walk
from vdla.runtime.gpu_network import place_network
from vdla.runtime.opencl import OpenClDevice

Array = np.ndarray
IMAGES = 3


def _before_softmax(graph: Graph) -> Graph:
    """Return a classifier whose output is the logits."""
    end = [node.op for node in graph.nodes].index("softmax")
    return Graph(
        graph.name, graph.tensors, graph.nodes[:end], graph.inputs, graph.nodes[end].inputs[:1]
    )


def _centred(pixels: Array) -> Array:
    return (pixels.astype(np.int16) - 128).astype(np.int8)


def _logits(graph: Graph, images: Array, device: OpenClDevice) -> Array:
    ran = place_network(compile_network(graph), device)
    (name,) = graph.inputs
    rows = [next(iter(ran.run({name: image[None]}).values())).reshape(-1) for image in images]
    return np.stack(rows)


def test_resnet8(shared_data: Path, pocl: OpenClDevice) -> None:
    graph = _before_softmax(import_tflite(shared_data / "mlperf_tiny" / "resnet8_int8.tflite"))
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    found = _logits(graph, _centred(data["images"][:IMAGES]), pocl)
    np.testing.assert_array_equal(found, data["resnet8_int8_litert_logits"][:IMAGES])


def test_resnet8_multiplies_by_dot_products(shared_data: Path) -> None:
    made = compile_network(import_tflite(shared_data / "mlperf_tiny" / "resnet8_int8.tflite"))
    dots = [c for c in made.calls if any(isinstance(p, Intrinsic) for p in walk(c.kernel.body))]
    assert len(dots) == 10  # nine convolutions and a dense layer


@pytest.mark.slow
def test_visual_wake_words(shared_data: Path, pocl: OpenClDevice) -> None:
    graph = _before_softmax(import_tflite(shared_data / "mlperf_tiny" / "vww96_int8.tflite"))
    data = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    found = _logits(graph, _centred(data["images_96"]), pocl)
    np.testing.assert_array_equal(found, data["vww96_int8_litert_logits"])


@pytest.mark.slow
def test_mobilenet(shared_data: Path, pocl: OpenClDevice) -> None:
    path = shared_data / "coral" / "mobilenet_v1_0.25_128_quant.tflite"
    data = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    found = _logits(_before_softmax(import_tflite(path)), data["images_128"], pocl)
    np.testing.assert_array_equal(found, data["mobilenet_v1_025_litert_logits"])


@pytest.mark.slow
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_a_network_that_onnxruntime_quantized(
    form: QuantFormat, shared_data: Path, tmp_path: Path, pocl: OpenClDevice
) -> None:
    path, images, _ = quantized_resnet8(shared_data, tmp_path, form)
    graph = _before_softmax(import_onnx(path))
    (name,) = graph.inputs
    given = images[:IMAGES]
    want = [next(iter(Interpreter(graph).run({name: image[None]}).values())) for image in given]
    np.testing.assert_array_equal(_logits(graph, given, pocl), np.concatenate(want))
