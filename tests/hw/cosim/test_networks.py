"""Whole networks on the RTL: the scores, the total and every layer's cycles of the cycle model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.compiler.graph import import_tflite
from vdla.config import PYNQ_Z1
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.executor import Outcome, execute

pytestmark = pytest.mark.rtl


def outcome(network: vdla.runtime.api.Network, image: np.ndarray, device: Device) -> Outcome:
    return execute(network.module, {network.module.inputs[0]: image}, device)


def same(network: vdla.runtime.api.Network, image: np.ndarray) -> Outcome:
    """Run a network on both, and return what the RTL gave once it is seen to be the same."""
    model = outcome(network, image, CycleDevice(PYNQ_Z1))
    rtl = outcome(network, image, RtlDevice(PYNQ_Z1))
    assert sum(program.cycles for program in rtl.counters) > 0
    for expected, found in zip(model.counters, rtl.counters, strict=True):
        layers = {name: layer.cycles for name, layer in expected.layers.items()}
        assert {name: layer.cycles for name, layer in found.layers.items()} == layers
        assert found.cycles == expected.cycles
    for name in network.module.outputs:
        np.testing.assert_array_equal(rtl.values[name], model.values[name])
    return rtl


def test_resnet8(shared_data: Path) -> None:
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    path = shared_data / "mlperf_tiny" / "resnet8_int8.tflite"
    network = vdla.compile(import_tflite(path), config=PYNQ_Z1)
    image = (data["images"][:1].astype(np.int16) - 128).astype(np.int8)
    found = same(network, image)
    (scores,) = (found.values[name] for name in network.module.outputs)
    assert scores.argmax() == data["resnet8_int8_litert_logits"][0].argmax()


@pytest.mark.slow
def test_resnet18() -> None:
    network = vdla.compile("resnet18", config=PYNQ_Z1)
    rng = np.random.default_rng(18)
    same(network, rng.integers(-128, 128, network.input_shape).astype(network.input_dtype))
