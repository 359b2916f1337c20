"""The large built-in networks on the accelerator, every layer against the interpreter."""

from __future__ import annotations

import pytest

import vdla
from vdla.compiler.zoo import sample_image


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "utilization"),
    [("mobilenet_v1", 0.55), ("mobilenet_v2", 0.33), ("resnet34", 0.9), ("resnet50", 0.78)],
)
def test_all_runs_on_the_accelerator_to_the_bit(name: str, utilization: float) -> None:
    run = vdla.compile(name).run(sample_image(1), check=True)
    assert run.bit_exact, run.first_difference
    summary = run.summary()
    # The host only lays out the image for the first convolution.
    assert {layer["op"] for layer in summary["layers"] if layer["device"] == "cpu"} <= {"unfold"}
    assert summary["mac_utilization"] >= utilization
