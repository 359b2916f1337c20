"""Kernels in a module file: what is kept, and what is refused before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.handmade_native import floats
from vdla.errors import ModuleError
from vdla.module import Gpu, GpuCall, GpuRegion, GpuRun, Module, load, save
from vdla.runtime import api


@pytest.fixture(scope="module")
def module() -> Module:
    return api.compile(floats(), target="opencl", cache=False).module


def _gpu(module: Module) -> Gpu:
    assert module.gpu is not None
    return module.gpu


def test_kernels_are_kept(module: Module, tmp_path: Path) -> None:
    kernel = replace(_gpu(module).kernels[0], ptx="// the same in PTX")
    gpu = replace(_gpu(module), kernels=(kernel, *_gpu(module).kernels[1:]))
    save(replace(module, gpu=gpu), tmp_path / "net.vdla")
    found = load(tmp_path / "net.vdla")
    assert [layer.device for layer in found.layers] == ["gpu"] * 3
    assert _gpu(found).target == "opencl"
    assert _gpu(found).kernels == gpu.kernels
    (run,), (want,) = _gpu(found).runs, gpu.runs
    for name in ("name", "layers", "inputs", "outputs", "calls", "regions", "arena_bytes"):
        assert getattr(run, name) == getattr(want, name)
    assert list(run.constants) == list(want.constants)
    for name, array in run.constants.items():
        np.testing.assert_array_equal(array, want.constants[name])


def test_a_tensor_may_be_called_array(module: Module, tmp_path: Path) -> None:
    run = _gpu(module).runs[0]
    named = replace(
        run, constants={"array": np.arange(3)}, regions={"array": GpuRegion(0, 4)}, arena_bytes=4
    )
    named = replace(named, calls=())
    save(replace(module, gpu=replace(_gpu(module), runs=(named,))), tmp_path / "net.vdla")
    (found,) = _gpu(load(tmp_path / "net.vdla")).runs
    np.testing.assert_array_equal(found.constants["array"], [0, 1, 2])
    assert found.regions == {"array": GpuRegion(0, 4)}


def _call(run: GpuRun, **changes: Any) -> dict[str, Any]:
    return {"calls": (replace(run.calls[0], **changes), *run.calls[1:])}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (lambda run: {"calls": (GpuCall(9, ()),)}, r"calls kernel 9, and there are \d"),
        (lambda run: _call(run, arrays=("input",)), r"gives part0 1 arrays, not \d"),
        (
            lambda run: _call(run, arrays=("nothing",) * len(run.calls[0].arrays)),
            r"gives part0 an array 'nothing', which there is not",
        ),
        (
            lambda run: {"regions": {"input": GpuRegion(0, 4)}, "arena_bytes": 64},
            r"gives part0 'input' of 4 bytes for input of 24",
        ),
        (
            lambda run: {"regions": {"x": GpuRegion(60, 8)}, "arena_bytes": 64},
            r"places 'x' outside of its 64 bytes of memory",
        ),
        (lambda run: {"layers": (0, 1, 7)}, r"names layer 7, and there are 3"),
        (
            lambda run: {"outputs": (*run.outputs, "input")},
            r"gives tensor 'input', which none of its layers",
        ),
    ],
)
def test_what_would_read_or_write_elsewhere(
    changes: Any, text: str, module: Module, tmp_path: Path
) -> None:
    run = replace(_gpu(module).runs[0], **changes(_gpu(module).runs[0]))
    save(replace(module, gpu=replace(_gpu(module), runs=(run,))), tmp_path / "net.vdla")
    with pytest.raises(ModuleError, match=rf"cut short or damaged \(its code run0 {text}"):
        load(tmp_path / "net.vdla")


def test_a_grid_of_nothing(module: Module, tmp_path: Path) -> None:
    kernel = replace(_gpu(module).kernels[0], grid=(0, 1, 1))
    save(replace(module, gpu=replace(_gpu(module), kernels=(kernel,))), tmp_path / "net.vdla")
    with pytest.raises(ModuleError, match=r"its kernel part0 has a grid and blocks of \(0, 1, 1"):
        load(tmp_path / "net.vdla")
