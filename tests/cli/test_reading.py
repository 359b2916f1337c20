"""``vdla import``: what a file holds and where it will run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.conftest import Invoke
from tests.compiler.onnx.models import Model, mixed_network
from vdla.compiler.onnx import export_onnx
from vdla.compiler.zoo import resnet18


@pytest.fixture
def open_model(tmp_path: Path) -> str:
    m = Model()
    x = m.input("image", ("N", 3, "side", 8))
    onnx.save(m.finish(m.node("Relu", x)), tmp_path / "open.onnx")
    return str(tmp_path / "open.onnx")


def test_the_operators_are_listed_with_their_devices(vdla_command: Invoke, tmp_path: Path) -> None:
    export_onnx(resnet18(), tmp_path / "net.onnx")
    outcome = vdla_command("import", str(tmp_path / "net.onnx"))
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[:2] == ["input input: int8 1 x 224 x 224 x 3", "output dense.out: int8 1 x 1000"]
    assert lines[3].split() == [
        "node",
        "operator",
        "shape",
        "type",
        "device",
        "why",
        "not",
        "on",
        "vdla",
    ]
    assert len(lines[4:-2]) == 31
    assert lines[-1] == ("vdla: 31 of 31 operators, 100.0% of 1,814.1 M multiply-accumulates")


def test_json_says_why_not(vdla_command: Invoke, tmp_path: Path) -> None:
    onnx.save(mixed_network(), tmp_path / "net.onnx")
    outcome = vdla_command("import", str(tmp_path / "net.onnx"), "--json")
    report = json.loads(outcome.out)
    assert report["inputs"] == [{"name": "image", "shape": [1, 3, 12, 20], "dtype": "float32"}]
    assert {node["device"] for node in report["nodes"]} == {"cpu"}
    reasons = {node["op"]: node["why_not_vdla"] for node in report["nodes"]}
    assert reasons["softmax"] == "the accelerator has no softmax"
    assert reasons["conv2d"] == "its activations are not int8 or uint8"
    assert report["devices"]["cpu"]["nodes"] == len(report["nodes"])
    assert report["devices"]["cpu"]["macs"] == sum(node["macs"] for node in report["nodes"])


def test_open_dimensions_are_bound(vdla_command: Invoke, open_model: str) -> None:
    outcome = vdla_command("import", open_model)
    assert outcome.code == 2
    assert "image (side)" in outcome.err
    outcome = vdla_command("import", open_model, "--bind", "side=4", "--bind", "N=2", "--json")
    assert json.loads(outcome.out)["inputs"][0]["shape"] == [2, 3, 4, 8]


@pytest.mark.parametrize("pair", ["side", "side=", "=4", "side=x", "side=-1"])
def test_a_binding_is_a_name_and_a_size(vdla_command: Invoke, open_model: str, pair: str) -> None:
    outcome = vdla_command("import", open_model, "--bind", pair)
    assert outcome.code == 2
    assert "--bind must be a name and a size, such as N=1, not" in outcome.err


def test_only_onnx_has_dimensions_to_bind(vdla_command: Invoke) -> None:
    outcome = vdla_command("import", "resnet18", "--bind", "N=1")
    assert outcome.code == 2
    assert "Only an ONNX model has dimensions to bind, not resnet18" in outcome.err


def test_what_runs_nowhere_is_said(vdla_command: Invoke, tmp_path: Path) -> None:
    m = Model()
    x = m.input("x", (1, 4), onnx.TensorProto.INT16)
    scale = m.constant(np.float32(0.5))
    y = m.node("QuantizeLinear", m.node("DequantizeLinear", x, scale), scale)
    w = m.node("Sum", y, y)
    onnx.save(m.finish(w, code=onnx.TensorProto.UINT8), tmp_path / "net.onnx")
    outcome = vdla_command("import", str(tmp_path / "net.onnx"))
    assert outcome.code == 1
    assert "add_2" in outcome.err
    assert "can run nowhere; on the cpu because" in outcome.err


def test_a_float_model_is_simulated_on_noise(vdla_command: Invoke, tmp_path: Path) -> None:
    onnx.save(mixed_network(), tmp_path / "net.onnx")
    outcome = vdla_command("simulate", str(tmp_path / "net.onnx"), "--check", "--no-cache")
    assert outcome.code == 0
    assert "every layer equals the integer interpreter" in outcome.out
