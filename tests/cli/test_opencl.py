"""Networks in float32 as kernels by the command, on PoCL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from vdla.compiler.onnx import export_onnx, import_onnx
from vdla.compiler.reference import Interpreter
from vdla.compiler.zoo.builder import Builder
from vdla.runtime.opencl import OpenClDevice

ON_POCL = ("--target", "opencl", "--device", "portable computing")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the file of a network of floats that takes two images at a time."""
    net = Builder("small", (2, 5, 4, 3))
    graph = net.finish(net.dense("classes", net.mean("mean", "input"), 7))
    onnx.save(export_onnx(graph), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def test_a_model_of_floats_runs_as_kernels(
    vdla_command: Any, model: Path, tmp_path: Path, pocl: OpenClDevice
) -> None:
    graph = import_onnx(model)
    (name,) = graph.inputs
    images = np.random.default_rng(5).normal(size=(4, *graph.tensors[name].shape[1:]))
    np.save(tmp_path / "images.npy", images.astype(np.float32))
    arguments = ("run", model, *ON_POCL, "--input", tmp_path / "images.npy")
    report = json.loads(vdla_command(*arguments, "--json").out)
    assert report["device"] == pocl.name
    passes = [
        Interpreter(graph).run({name: part.astype(np.float32)}) for part in (images[:2], images[2:])
    ]
    rows = np.concatenate([next(iter(outputs.values())) for outputs in passes])
    assert [best[0]["class"] for best in report["classes"]] == rows.argmax(1).tolist()
    shown = vdla_command(*arguments).out
    assert f"{report['calls']} calls of {report['kernels']} kernels on {pocl.name}\n" in shown
    assert "classes of image 3 (score): " in shown
    noise = vdla_command("run", model, *ON_POCL)
    assert "running on random noise" in noise.err
    assert "classes of image 1 (score): " in noise.out


def test_what_does_not_run_as_kernels(
    vdla_command: Any, model: Path, tmp_path: Path, pocl: OpenClDevice
) -> None:
    def refused(*arguments: str | Path) -> str:
        outcome = vdla_command("run", *arguments)
        assert outcome.code != 0
        return " ".join(outcome.err.replace("│", " ").split())

    said = refused("digits", *ON_POCL)
    assert "No kernel can be made of conv2d" in said
    assert " is int8: convert it before, or leave the operator on the processor." in said
    compiled = tmp_path / "small.vdla"
    assert "--target opencl compiles a model, not a compiled file" in refused(compiled, *ON_POCL)
    assert "--threads, --check" in refused(model, *ON_POCL, "--check", "--threads", "2")
    given = import_onnx(model).tensors[import_onnx(model).inputs[0]].shape[1:]
    np.save(tmp_path / "three.npy", np.zeros((3, *given), np.float32))
    said = refused(model, *ON_POCL, "--input", tmp_path / "three.npy")
    assert "--input must hold a multiple of 2 images" in said
