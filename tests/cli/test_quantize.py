"""``vdla quantize`` from files to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from tests.compiler.quantize.networks import RELU, FloatDraft, images, residual
from vdla.compiler.onnx import export_onnx, import_onnx
from vdla.compiler.quantize import quantize
from vdla.compiler.reference import Interpreter


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "float.onnx"
    export_onnx(residual(), path)
    return path


@pytest.fixture
def calib(tmp_path: Path) -> Path:
    path = tmp_path / "calib.npy"
    np.save(path, images(residual(), 8))
    return path


def run_onnx(path: Path, values: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path)
    (source,) = session.get_inputs()
    found = [session.run(None, {source.name: values[i : i + 1]})[0] for i in range(len(values))]
    return np.concatenate(found)


def test_a_float_network_becomes_one_that_onnxruntime_runs(
    vdla_command: Any, model: Path, calib: Path, tmp_path: Path
) -> None:
    output = tmp_path / "q.onnx"
    outcome = vdla_command("quantize", str(model), "--calib", str(calib), "-o", str(output))
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["layer", "operator", "on", "SQNR", "dB", "alone", "dB"]
    assert lines[1].split()[1:3] == ["conv2d", "int8"]
    assert lines[-1].endswith("bytes, calibrated on 8 images")

    pixels = images(residual(), 20, seed=3)
    truth = Interpreter(residual()).run(pixels)["softmax.out"]
    found = run_onnx(output, pixels)
    assert np.abs(found - truth).max() < 0.1
    assert (found.argmax(axis=1) == truth.argmax(axis=1)).mean() >= 0.9
    operators = {node.op_type for node in onnx.load(output).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= operators


def test_the_report_as_json(vdla_command: Any, model: Path, calib: Path, tmp_path: Path) -> None:
    output = tmp_path / "q.onnx"
    arguments = ("quantize", str(model), "--calib", str(calib), "-o", str(output), "--json")
    report = json.loads(vdla_command(*arguments, "--images", "4").out)
    assert report["bytes"] == output.stat().st_size
    assert report["images"] == 4
    layers = {layer["op"]: layer for layer in report["layers"]}
    assert layers["dense"]["sqnr_db"] > 20
    assert layers["dense"]["form"] == "int8"


def test_options_reach_the_quantizer(
    vdla_command: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def remember(graph: Any, samples: Any, **options: Any) -> Any:
        seen.update(options, samples=samples)
        return quantize(graph, samples, **options)

    monkeypatch.setattr("vdla.compiler.quantize.quantize", remember)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "a.npy", pixels)
    outcome = vdla_command(
        *("quantize", str(model), "--calib", str(tmp_path / "a.npy")),
        *("-o", str(tmp_path / "q.onnx"), "--calibration", "percentile", "--percentile", "99"),
        *("--no-bias-correction", "--equalize", "--scale", "1/255", "--mean", "0.5,0.4,0.3"),
        *("--std", "0.25", "--layout", "nchw", "--ends", "int8"),
    )
    assert outcome.code == 0
    assert seen["calibration"] == "percentile"
    assert seen["percentile"] == 99
    assert (seen["bias_correction"], seen["equalize"], seen["ends"]) == (False, True, "int8")
    expected = (pixels[1, :, 2, 3] / 255 - [0.5, 0.4, 0.3]) / 0.25
    np.testing.assert_allclose(seen["samples"]["input"][1, 2, 3], expected)
    assert seen["known"]["input"] == pytest.approx((-2, 2.8))
    source = import_onnx(tmp_path / "q.onnx").tensors["input"]
    assert source.dtype == np.int8
    assert source.quant.scale[0] == pytest.approx(4.8 / 255)


def test_a_folder_of_pictures_calibrates(vdla_command: Any, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    outcome = vdla_command(
        "quantize", str(model), "--calib", str(folder), "-o", str(tmp_path / "q.onnx")
    )
    assert outcome.code == 2
    assert "A calibration folder must hold pictures" in outcome.err
    for index in range(3):
        Image.new("RGB", (20, 10), (90 * index, 50, 200)).save(folder / f"{index}.jpg")
    outcome = vdla_command(
        *("quantize", str(model), "--calib", str(folder), "--scale", "1/255"),
        *("-o", str(tmp_path / "q.onnx")),
    )
    assert outcome.out.splitlines()[-1].endswith("calibrated on 3 images")


@pytest.mark.parametrize("bad", ["1/0", "a", ""])
def test_numbers_that_are_none(
    vdla_command: Any, model: Path, calib: Path, tmp_path: Path, bad: str
) -> None:
    outcome = vdla_command(
        *("quantize", str(model), "--calib", str(calib), "-o", str(tmp_path / "q.onnx")),
        *("--mean", f"0,{bad},1"),
    )
    assert outcome.code == 2
    assert f"--mean takes numbers, as 0.5 or 1/255, not '{bad}'" in " ".join(outcome.err.split())


def one_line(outcome: Any, message: str) -> None:
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert message in outcome.err


def test_what_cannot_be_quantized_is_one_line(
    vdla_command: Any, model: Path, calib: Path, tmp_path: Path
) -> None:
    output = ("-o", str(tmp_path / "q.onnx"))
    done = tmp_path / "done.onnx"
    vdla_command("quantize", str(model), "--calib", str(calib), "-o", str(done))
    one_line(
        vdla_command("quantize", str(done), "--calib", str(calib), *output), "with a scale already"
    )
    one_line(
        vdla_command("quantize", "resnet18", "--calib", str(calib), *output),
        "tensor 'input' of 'resnet18' is int8 with a scale already",
    )
    np.save(tmp_path / "a.npy", np.zeros((2, 8, 8, 5), np.float32))
    one_line(
        vdla_command("quantize", str(model), "--calib", str(tmp_path / "a.npy"), *output),
        "must have the shape (n, 8, 8, 3) with n at least 1, not (2, 8, 8, 5)",
    )
    np.save(tmp_path / "a.npy", np.full((2, 8, 8, 3), np.nan, np.float32))
    one_line(
        vdla_command("quantize", str(model), "--calib", str(tmp_path / "a.npy"), *output),
        "must be finite; 384 of its values are NaN or infinite",
    )
    one_line(
        vdla_command("quantize", "absent.tflite", "--calib", str(calib), *output),
        "A model must be a readable file, not absent.tflite",
    )
    one_line(
        vdla_command("quantize", "resnet51", "--calib", str(calib), *output),
        "A built-in network must be one of",
    )


def test_an_operator_without_integers_stays_float(
    vdla_command: Any, calib: Path, tmp_path: Path
) -> None:
    net = FloatDraft((1, 8, 8, 3))
    x = net.conv("first", "input", 4)
    x = net.node("swish", "hard_swish", (x,), (1, 8, 8, 4), {})
    export_onnx(net.finish(net.conv("second", x, 4, clip=RELU)), tmp_path / "f.onnx")
    output = tmp_path / "q.onnx"
    report = json.loads(
        vdla_command(
            *("quantize", str(tmp_path / "f.onnx"), "--calib", str(calib)),
            *("-o", str(output), "--json"),
        ).out
    )
    forms = [(layer["op"], layer["form"]) for layer in report["layers"]]
    assert forms == [("conv2d", "int8"), ("hard_swish", "float32"), ("conv2d", "int8")]
    pixels = images(residual(), 5, seed=9)
    truth = Interpreter(import_onnx(tmp_path / "f.onnx")).run(pixels)
    found = run_onnx(output, pixels)
    (expected,) = truth.values()
    assert np.square(found - expected).sum() < np.square(expected).sum() / 1000  # 30 dB
