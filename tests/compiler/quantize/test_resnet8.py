"""MLPerf Tiny's float ResNet-8 on CIFAR-10, quantized here."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.graph import import_tflite
from vdla.compiler.quantize import quantize
from vdla.compiler.reference import Interpreter


@pytest.fixture(scope="module")
def cifar(shared_data):
    return np.load(shared_data / "images" / "cifar10_test_500.npz")


@pytest.fixture(scope="module")
def graph(shared_data):
    return import_tflite(shared_data / "mlperf_tiny" / "resnet8_float.tflite")


def right(scores, labels):
    """Return how many of a thousand images are classified rightly."""
    return round(1000 * (scores.argmax(axis=1) == labels).mean(), 6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calibration", "least"), [("minmax", 755), ("percentile", 750), ("entropy", 742)]
)
def test_top_1_stays_within_a_point(graph, cifar, calibration, least):
    images, labels = cifar["images"], cifar["labels"]
    # Every fifth image calibrates, ten of each class; the other 400 were never seen.
    seen = np.arange(500) % 5 == 0
    quantized = quantize(graph, images[seen], calibration=calibration, report=False).graph
    assert quantized.tensors["input"].quant.scale[0] == 1
    assert quantized.tensors["input"].quant.zero_point[0] == -128
    pixels = (images.astype(int) - 128).astype(np.int8)
    scores = Interpreter(quantized).run(pixels)[quantized.outputs[0]]
    floats = cifar["resnet8_float_litert"]
    assert right(floats, labels) == 752
    assert right(scores, labels) >= max(least, 752 - 10)
    assert right(scores[~seen], labels[~seen]) >= right(floats[~seen], labels[~seen]) - 10
