"""The commands on the real runtime, from a network's file to what a user reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LAYER_KEYS = {
    "name",
    "op",
    "device",
    "cycles",
    "mac_utilization",
    "dram_bytes",
    "dram_bytes_least",
    "fused_into",
    "waiting",
}
SUMMARY_KEYS = {
    "bit_exact",
    "classes",
    "clock_mhz",
    "config",
    "config_hash",
    "cycles",
    "layers",
    "mac_cycles_ideal",
    "mac_utilization",
    "processor_seconds",
    "sim_cycles_per_second",
    "sim_seconds",
}


@pytest.fixture(scope="module")
def resnet8(shared_data: Path) -> str:
    return str(shared_data / "mlperf_tiny" / "resnet8_int8.tflite")


@pytest.fixture(scope="module")
def cifar(shared_data: Path) -> Any:
    with np.load(shared_data / "images" / "cifar10_test_500.npz") as archive:
        return dict(archive)


@pytest.fixture(scope="module")
def image(cifar: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first test image as the network takes it: pixel - 128."""
    path = tmp_path_factory.mktemp("image") / "first.npy"
    np.save(path, (cifar["images"][:1].astype(np.int16) - 128).astype(np.int8))
    return path


@pytest.fixture(scope="module")
def compiled(resnet8: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from vdla.runtime import api

    path = tmp_path_factory.mktemp("compiled") / "resnet8.vdla"
    api.compile(resnet8).save(path)
    return path


def test_simulate_checks_a_trained_network_on_the_cycle_model(
    vdla_command: Any, resnet8: str, image: Path, cifar: Any
) -> None:
    outcome = vdla_command("simulate", resnet8, "--input", str(image), "--check", "--json")
    report = json.loads(outcome.out)
    assert outcome.code == 0
    assert set(report) == SUMMARY_KEYS
    assert all(set(layer) == LAYER_KEYS for layer in report["layers"])
    assert report["bit_exact"] is True
    scores = {one["class"]: one["score"] for one in report["classes"][0]}
    expected = cifar["resnet8_int8_litert"][0].tolist()
    assert scores == {index: expected[index] for index in scores}
    assert max(scores.values()) == max(expected)
    counted = [layer["cycles"] for layer in report["layers"] if layer["cycles"] is not None]
    assert sum(counted) == report["cycles"]
    ideal = report["mac_utilization"] * report["cycles"]  # not in whole cycles
    assert report["mac_cycles_ideal"] - 1 < ideal <= report["mac_cycles_ideal"] * (1 + 1e-12)


def test_a_compiled_file_gives_the_scores_of_its_network(
    vdla_command: Any, resnet8: str, compiled: Path, image: Path
) -> None:
    options = ["--device", "functional", "--input", str(image), "--json"]
    ran = json.loads(vdla_command("run", str(compiled), *options).out)
    simulated = json.loads(vdla_command("simulate", resnet8, *options).out)
    assert ran["classes"] == simulated["classes"]
    assert ran["cycles"] is None


def test_a_compiled_file_of_another_configuration_is_refused(
    vdla_command: Any, compiled: Path
) -> None:
    outcome = vdla_command("run", str(compiled), "--config", "paper")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "pynq-z1" in outcome.err
    assert "paper" in outcome.err


def test_a_compiled_file_is_listed(vdla_command: Any, compiled: Path) -> None:
    lines = vdla_command("disasm", str(compiled)).out.splitlines()
    assert lines[0] == ".config pynq-z1"
    assert sum(line.startswith("finish") for line in lines) == lines.count(".config pynq-z1")
    assert any(line.startswith(".uop ") for line in lines)
    assert any(line.startswith(".layer ") for line in lines)


@pytest.mark.parametrize("content", [b"", b"not a network at all"])
def test_what_is_no_network_is_refused_on_one_line(
    vdla_command: Any, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "a.tflite"
    path.write_bytes(content)
    outcome = vdla_command("simulate", str(path))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("vdla: ")
    assert str(path) in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
def test_bench_convs_reports_every_shape(vdla_command: Any) -> None:
    report = json.loads(vdla_command("bench", "convs", "--json").out)
    assert [layer["name"] for layer in report["layers"]] == [f"C{n}" for n in range(2, 12)]
    ideal = sum(layer["occurrences"] * layer["mac_cycles_ideal"] for layer in report["layers"])
    assert ideal == 6_623_232
    taken = sum(layer["occurrences"] * layer["cycles"]["2"] for layer in report["layers"])
    assert report["mac_utilization"]["2"] == pytest.approx(ideal / taken)


def test_a_network_of_two_inputs_takes_an_archive_or_noise(
    vdla_command: Any, tmp_path: Path
) -> None:
    import onnx
    from onnx import TensorProto, helper

    x, z, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3)) for name in ("x", "z", "y")
    )
    node = helper.make_node("Add", ["x", "z"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "two", [x, z], [y]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "two.onnx")
    file = tmp_path / "both.npz"
    one = np.ones((1, 3), np.float32)
    np.savez(file, x=one, z=2 * one)
    command = ("simulate", str(tmp_path / "two.onnx"), "--config", "tiny")
    assert vdla_command(*command, "--input", str(file), "--check").code == 0
    assert vdla_command(*command).code == 0
    np.savez(file, x=one)
    assert "must hold the arrays x, z, not x" in vdla_command(*command, "--input", str(file)).err
    np.save(tmp_path / "x.npy", one)
    wrong = vdla_command(*command, "--input", str(tmp_path / "x.npy"))
    assert "takes --input FILE.npz with an array for each of x, z" in wrong.err
