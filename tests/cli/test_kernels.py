"""Networks in float32 as kernels by the command, on PoCL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import vdla
from tests.runtime.test_beside_gpu import with_a_tail_of_floats
from vdla.compiler.onnx import export_onnx, import_onnx
from vdla.compiler.reference import Interpreter
from vdla.compiler.zoo.builder import Builder
from vdla.runtime.opencl import OpenClDevice

ENDINGS = {
    "opencl": {".cl"},
    "cuda": {".cu"},
    "ptx": {".cu", ".ptx"},
    "metal": {".metal", ".mm"},
}
CUDA = ("--target", "cuda")
ON_POCL = ("--target", "opencl", "--device", "portable computing")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the file of a network of floats that takes two images at a time."""
    net = Builder("small", (2, 5, 4, 3))
    graph = net.finish(net.dense("classes", net.mean("mean", "input"), 7))
    onnx.save(export_onnx(graph), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


@pytest.fixture
def convolution(tmp_path: Path) -> Path:
    """Return the file of a convolution of 3 x 3 that is large enough for warps."""
    net = Builder("wide", (1, 8, 8, 8))
    graph = net.finish(net.conv("wide", "input", 16, 3, 1, (0.0, np.inf), same=True))
    onnx.save(export_onnx(graph), tmp_path / "wide.onnx")
    return tmp_path / "wide.onnx"


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
    halves = json.loads(vdla_command(*arguments, "--dtype", "float16", "--json").out)
    for one, other in zip(halves["classes"], report["classes"], strict=True):
        assert one[0]["class"] == other[0]["class"]
        assert one[0]["score"] != other[0]["score"]
        assert one[0]["score"] == pytest.approx(other[0]["score"], rel=0.01)
    noise = vdla_command("run", model, *ON_POCL)
    assert "running on random noise" in noise.err
    assert "classes of image 1 (score): " in noise.out


def _sources(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.glob("*.c*")))


@pytest.mark.parametrize(
    ("options", "held"),
    [
        (("--matrices", "--dtype", "float16"), "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32"),
        (("--winograd", "4"), "void part0_2_kernel("),
    ],
)
def test_how_kernels_compute_is_asked_for(
    vdla_command: Any, convolution: Path, tmp_path: Path, options: tuple[str, ...], held: str
) -> None:
    for folder, given in (("plain", ()), ("asked", options)):
        emitted = (*CUDA, "--emit-source", tmp_path / folder)
        assert vdla_command("run", convolution, *emitted, *given).code == 0
    assert held not in _sources(tmp_path / "plain")
    assert held in _sources(tmp_path / "asked")


def test_it_is_kept_in_a_compiled_file(
    vdla_command: Any, convolution: Path, tmp_path: Path
) -> None:
    sources = []
    for name, options in (("plain", ()), ("asked", ("--matrices", "--dtype", "float16"))):
        file = tmp_path / f"{name}.vdla"
        assert vdla_command("compile", convolution, "-o", file, *CUDA, *options).code == 0
        gpu = vdla.load(file).module.gpu
        assert gpu is not None
        sources.append("".join(kernel.source for kernel in gpu.kernels))
    assert ["wmma.mma" in source for source in sources] == [False, True]


def test_what_does_not_run_as_kernels(
    vdla_command: Any, model: Path, tmp_path: Path, pocl: OpenClDevice
) -> None:
    def refused(*arguments: str | Path) -> str:
        outcome = vdla_command("run", *arguments)
        assert outcome.code != 0
        return " ".join(outcome.err.replace("│", " ").split())

    only = "--emit-source: only with --target opencl, cuda, ptx or metal"
    assert only in refused(model, "--emit-source", tmp_path / "source")
    written = ("--target", "opencl", "--emit-source", tmp_path / "source")
    assert "--image: not with --emit-source" in refused(model, *written, "--image", "cat.jpg")
    file = tmp_path / "cuda.vdla"
    assert vdla_command("compile", model, "-o", file, "--target", "cuda").code == 0
    assert "are for cuda, not for opencl: name the target cuda" in refused(file, *written)
    assert not (tmp_path / "source").exists()
    assert "Kernels must be for opencl or cuda to run from Python, not for metal: write its " in (
        refused(model, "--target", "metal")
    )
    assert f"--dtype: {only.split(': ')[1]}" in refused(model, "--dtype", "float16")
    assert f"--winograd, --matrices: {only.split(': ')[1]}" in (
        refused(model, "--matrices", "--winograd", "4")
    )
    for option in (("--dtype", "float16"), ("--matrices",)):
        assert (
            "--dtype, --winograd and --matrices are for a network that is compiled here, not"
            in (refused(tmp_path / "small.vdla", *ON_POCL, *option))
        )
    assert "matrices must go with kernels for cuda, since only CUDA C has" in (
        refused(model, *ON_POCL, "--matrices")
    )
    assert "winograd must be 2 or 4, rows" in refused(model, *ON_POCL, "--winograd", "3")
    assert "--threads, --check" in refused(model, *ON_POCL, "--check", "--threads", "2")
    given = import_onnx(model).tensors[import_onnx(model).inputs[0]].shape[1:]
    np.save(tmp_path / "three.npy", np.zeros((3, *given), np.float32))
    said = refused(model, *ON_POCL, "--input", tmp_path / "three.npy")
    assert "--input must hold a multiple of 2 images" in said


def test_a_compiled_file_runs_without_the_compiler(
    vdla_command: Any, model: Path, tmp_path: Path, pocl: OpenClDevice
) -> None:
    compiled, images = tmp_path / "small.vdla", tmp_path / "images.npy"
    graph = import_onnx(model)
    (name,) = graph.inputs
    given = np.random.default_rng(6).normal(size=graph.tensors[name].shape).astype(np.float32)
    np.save(images, given)
    report = json.loads(
        vdla_command("compile", model, "-o", compiled, "--target", "opencl", "--json").out
    )
    assert (report["gpu"], report["cpu"]) == ("opencl", None)
    assert (
        " for opencl, in "
        in vdla_command("compile", model, "-o", compiled, "--target", "opencl").out
    )
    program = """
import json, sys
from vdla.runtime.cli.app import app
before = {*sys.modules}
try:
    app()
except SystemExit as end:
    assert not end.code, end.code
loaded = {*sys.modules} - before
print(json.dumps([m for m in loaded if m.startswith(("vdla.compiler", "llvmlite", "onnx"))]))
"""
    found = {}
    for target in (["--target", "opencl", "--device", "portable"], []):
        command = ["run", str(compiled), *target, "--input", str(images), "--json"]
        ended = subprocess.run(
            [sys.executable, "-c", program, *command], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        text, _, modules = ended.stdout.strip().rpartition("\n")
        assert json.loads(modules) == []
        found[len(target)] = json.loads(text)["classes"][-1]
    (want,) = Interpreter(graph).run({name: given}).values()
    assert [best["class"] for best in found[4]] == want[-1].argsort()[::-1][:5].tolist()
    said = vdla_command("run", compiled, "--target", "cuda")
    assert said.code != 0


def test_source_is_written_for_every_language_without_a_device(
    vdla_command: Any, model: Path, tmp_path: Path
) -> None:
    for target in ("opencl", "cuda", "ptx", "metal"):
        folder = tmp_path / target
        arguments = ("run", model, "--target", target, "--emit-source", folder)
        report = json.loads(vdla_command(*arguments, "--json").out)
        assert sorted(report["files"]) == sorted(file.name for file in folder.iterdir())
        assert f"{folder}: {len(report['files'])} files, 2 calls of 2 kernels\n" in (
            vdla_command(*arguments).out
        )
        endings = {file.suffix for file in folder.iterdir()} - {".json", ".bin"}
        assert endings == ENDINGS[target]


def test_what_stays_off_the_accelerator_goes_to_the_gpu(
    vdla_command: Any, tmp_path: Path, pocl: OpenClDevice
) -> None:
    model = tmp_path / "more.onnx"
    onnx.save(export_onnx(with_a_tail_of_floats()), model)
    arguments = ("simulate", model, "--gpu", "opencl", "--device", "functional", "--check")
    report = json.loads(vdla_command(*arguments, "--json").out)
    assert report["bit_exact"]
    devices = {layer["op"]: layer["device"] for layer in report["layers"]}
    assert (devices["conv2d"], devices["softmax"], devices["sqrt"]) == ("vdla", "gpu", "gpu")
    compiled = tmp_path / "more.vdla"
    said = vdla_command("compile", model, "-o", compiled, "--gpu", "opencl").out
    assert " bytes for pynq-z1 and opencl, in " in said
    on = f"functional+opencl:{pocl.name[:9]}"
    again = json.loads(vdla_command("run", compiled, "--device", on, "--json").out)
    assert again["classes"] == report["classes"]


def test_a_compiled_file_for_a_gpu_runs_there(
    vdla_command: Any, model: Path, tmp_path: Path, pocl: OpenClDevice
) -> None:
    compiled = tmp_path / "small.vdla"
    vdla_command("compile", model, "-o", compiled, "--target", "opencl")
    shown = vdla_command("run", compiled, "--device", f"opencl:{pocl.name[:9]}").out
    assert " ms on the GPU, copies included\n" in shown


def test_a_folder_of_images_goes_through_the_gpu(
    vdla_command: Any, tmp_path: Path, pocl: OpenClDevice
) -> None:
    net = Builder("single", (1, 5, 4, 3))
    graph = net.finish(net.dense("classes", net.mean("mean", "input"), 7))
    onnx.save(export_onnx(graph), tmp_path / "single.onnx")
    images = np.random.default_rng(5).normal(size=(3, 5, 4, 3)).astype(np.float32)
    np.save(tmp_path / "images.npy", images)
    compiled = tmp_path / "single.vdla"
    vdla_command("compile", tmp_path / "single.onnx", "-o", compiled, "--target", "opencl")
    on = ("--device", f"opencl:{pocl.name[:9]}", "--images", tmp_path / "images.npy")
    report = json.loads(vdla_command("run", compiled, *on, "--json").out)
    (want,) = Interpreter(graph).run({graph.inputs[0]: images[:1]}).values()
    assert report["images"][0]["classes"][0]["class"] == want.argmax()
    assert len(report["images"]) == 3
    assert report["frames_per_second"] > 0
    assert " frames a second on the GPU\n" in vdla_command("run", compiled, *on).out
