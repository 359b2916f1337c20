"""Whole networks on the RTL: the scores, the total and every layer's cycles of the cycle model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.compiler.graph import import_tflite
from vdla.config import PYNQ_Z1
from vdla.runtime.network import Network
from vdla.runtime.run import Run

pytestmark = pytest.mark.rtl


def same_on_both(network: Network, image: np.ndarray) -> Run:
    """Run a network on the cycle model and on the RTL; return the RTL's run."""
    model, rtl = (network.run(image, device=device) for device in ("cycle", "rtl"))
    for expected, found in zip(model.counters, rtl.counters, strict=True):
        layers = {name: layer.cycles for name, layer in expected.layers.items()}
        assert {name: layer.cycles for name, layer in found.layers.items()} == layers
        assert sum(layers.values()) == expected.cycles == found.cycles
    assert rtl.outputs.keys() == model.outputs.keys()
    for name, scores in rtl.outputs.items():
        np.testing.assert_array_equal(scores, model.outputs[name])
    return rtl


def test_resnet8(shared_data: Path) -> None:
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    path = shared_data / "mlperf_tiny" / "resnet8_int8.tflite"
    network = vdla.compile(import_tflite(path), config=PYNQ_Z1)
    image = (data["images"][:1].astype(np.int16) - 128).astype(np.int8)
    (scores,) = same_on_both(network, image).outputs.values()
    assert scores.argmax() == data["resnet8_int8_litert_logits"][0].argmax()


@pytest.mark.slow
def test_resnet18() -> None:
    network = vdla.compile("resnet18", config=PYNQ_Z1)
    rng = np.random.default_rng(18)
    same_on_both(network, rng.integers(-128, 128, network.input_shape).astype(network.input_dtype))
