"""``vdla import``: what a file holds and where it will run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.conftest import Invoke
from tests.compiler.onnx.models import Model, image, mixed_network
from vdla.compiler.onnx import export_onnx, import_onnx
from vdla.compiler.quantize import quantize
from vdla.compiler.zoo import resnet18
from vdla.config import named
from vdla.runtime import api


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
        "in",
        "the",
        "file",
        "operator",
        "shape",
        "type",
        "device",
        "why",
        "not",
        "on",
        "vdla",
    ]
    assert len(lines[4:-3]) == 32  # conv1.unfold among them
    assert lines[-1] == ("vdla: 31 of 32 operators, 100.0% of 1,814.1 M multiply-accumulates")


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


@pytest.mark.parametrize("config", ["TINY", "PYNQ_Z1"])
@pytest.mark.parametrize("wishes", [{}, {"conv2d": "cpu"}, {"mean*": "cpu", "conv2d": "vdla"}])
@pytest.mark.parametrize("network", ["digits", "mixed"])
def test_what_is_shown_is_what_is_compiled(
    vdla_command: Invoke, tmp_path: Path, network: str, wishes: dict[str, str], config: str
) -> None:
    if network == "mixed":
        graph = quantize(import_onnx(mixed_network()), image(), report=False).graph
        export_onnx(graph, tmp_path / "net.onnx")
        network = str(tmp_path / "net.onnx")
    pairs = [part for key, device in wishes.items() for part in ("--place", f"{key}={device}")]
    outcome = vdla_command("import", network, *pairs, "--config", config, "--json")
    shown = [(node["name"], node["device"]) for node in json.loads(outcome.out)["nodes"]]
    compiled = api.compile(network, place=wishes, config=named(config), cache=False)
    assert shown == [(layer.name, layer.device) for layer in compiled.module.layers]
    assert any(device == "vdla" for _, device in shown) or wishes == {"conv2d": "cpu"}


def test_a_wish_that_nothing_can_follow_is_refused(vdla_command: Invoke) -> None:
    outcome = vdla_command("import", "digits", "--place", "*fold=vdla")
    assert outcome.code == 2
    assert "of '*fold' none can run on vdla: conv2d_4.unfold" in outcome.err


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


def test_a_dimension_has_one_size(vdla_command: Invoke, open_model: str) -> None:
    outcome = vdla_command("import", open_model, "--bind", "N=2", "--bind", "N=3")
    assert outcome.code == 2
    assert "--bind must give a dimension one size, not N both 2 and 3: leave one" in outcome.err
    outcome = vdla_command("import", open_model, "--bind", "side=4", "--bind", "side=4")
    assert outcome.code == 0


def test_nodes_have_one_device(vdla_command: Invoke) -> None:
    pair = ("--place", "conv2d=cpu", "--place", "conv2d=vdla")
    outcome = vdla_command("import", "digits", *pair)
    assert outcome.code == 2
    assert "--place must put nodes on one device, not conv2d on cpu and on vdla" in outcome.err


def test_only_onnx_has_dimensions_to_bind(vdla_command: Invoke) -> None:
    outcome = vdla_command("import", "resnet18", "--bind", "N=1")
    assert outcome.code == 2
    assert "Only an ONNX model has dimensions to bind, not resnet18" in outcome.err


def test_what_runs_nowhere_is_said(vdla_command: Invoke, tmp_path: Path) -> None:
    m = Model(opset=21)
    x = m.input("x", (1, 4), onnx.TensorProto.INT16)
    scale = m.constant(np.float32(0.5))
    y = m.node("QuantizeLinear", m.node("DequantizeLinear", x, scale), scale)
    w = m.node("Add", y, y)
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
    assert "classes (score): " in outcome.out


def test_an_image_has_no_classes(vdla_command: Invoke, tmp_path: Path) -> None:
    m = Model()
    x = m.node("Conv", m.input("x", (1, 3, 8, 8)), m.drawn(3, 3, 3, 3))
    onnx.save(m.finish(x), tmp_path / "net.onnx")
    outcome = vdla_command("simulate", str(tmp_path / "net.onnx"), "--no-cache")
    assert outcome.code == 0
    assert "classes" not in outcome.out
