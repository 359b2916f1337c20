"""``vdla bench passes`` and ``vdla bench traffic`` on a trained network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vdla.compiler.network import PASSES


@pytest.fixture
def resnet8(shared_data: Path) -> str:
    return str(shared_data / "mlperf_tiny" / "resnet8_int8.tflite")


def test_every_pass_is_left_out_once_and_is_worth_something(
    vdla_command: Any, resnet8: str
) -> None:
    outcome = vdla_command("bench", "passes", resnet8, "--json")
    variants = {v["without"]: v for v in json.loads(outcome.out)["variants"]}
    assert [*variants] == [None, *PASSES]
    whole = variants[None]
    assert variants["thin"]["cycles"] > whole["cycles"]
    assert variants["join"]["cycles"] > whole["cycles"]
    assert variants["layout"]["host_bytes"] > whole["host_bytes"]
    assert variants["memory"]["arena_bytes"] > whole["arena_bytes"]
    table = vdla_command("bench", "passes", resnet8).out
    assert f"{whole['cycles']:,}" in table
    assert "memory: activations that never live" in table


def test_traffic_is_set_against_each_tensor_once(vdla_command: Any, resnet8: str) -> None:
    result = json.loads(vdla_command("bench", "traffic", resnet8, "--json").out)
    layers = {layer["name"]: layer for layer in result["layers"]}
    # 32x32 of 16 channels, 3x3: input, output, weights, biases.
    assert layers["conv2d_1"]["dram_bytes_least"] == 2 * 32 * 32 * 16 + 9 * 16 * 16 + 4 * 16
    assert all(layer["dram_bytes"] > 0 for layer in layers.values())
    assert result["dram_bytes"] == sum(layer["dram_bytes"] for layer in layers.values())
    assert "conv2d_1" in vdla_command("bench", "traffic", resnet8).out
