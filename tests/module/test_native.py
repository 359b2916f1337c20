"""Machine code in compiled files: kept to the byte, and held against the network that it is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.handmade_native import floats, with_native
from tests.module.test_file import assert_same
from tests.networks import residual
from vdla.compiler.network import compile_graph
from vdla.config import TINY
from vdla.errors import ModuleError
from vdla.module import Module, Native, NativeRun, load, save

RUN = ["exp", "mul", "add"]


@pytest.fixture(scope="module")
def module() -> Module:
    graph = floats()
    return with_native(compile_graph(graph, TINY, place={n.name: "cpu" for n in graph.nodes}), RUN)


def native_of(module: Module) -> Native:
    assert module.native is not None
    return module.native


def test_machine_code_comes_back_whole(module: Module, tmp_path: Path) -> None:
    save(module, tmp_path / "net.vdla")
    found = load(tmp_path / "net.vdla")
    assert isinstance(native_of(found).library, bytes)
    assert native_of(found).runs == (
        NativeRun("run_0", (0, 1, 2), ("input",), ("c",), native_of(module).runs[0].arena_bytes),
    )
    assert_same(found, module)
    save(found, tmp_path / "again.vdla")
    assert (tmp_path / "again.vdla").read_bytes() == (tmp_path / "net.vdla").read_bytes()


def test_a_network_without_machine_code_has_none(tmp_path: Path) -> None:
    save(compile_graph(residual(), TINY), tmp_path / "net.vdla")
    assert load(tmp_path / "net.vdla").native is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"layers": ()}, "its code run_0 computes no layer"),
        ({"layers": (0, 1, 3)}, "its code run_0 names layer 3, and there are 3"),
        ({"layers": (0, -1)}, "its code run_0 names layer -1, and there are 3"),
        ({"layers": (0, 0)}, r"its code run_0 computes layer 0 \(exp\) a second time"),
        (
            {"layers": (0, 2)},
            r"names layers 0 and 2 \(exp, add\), which no two steps execute one after the other",
        ),
        ({"layers": (0, 1)}, "gives tensor 'c', which none of its layers makes"),
        ({"layers": (0,), "inputs": ("b",), "outputs": ("a",)}, "reads tensor 'b', which a later"),
        ({"inputs": ()}, "its code run_0 has no input or no output"),
        ({"inputs": ("d",)}, "its code run_0 names tensor 'd', which there is not"),
        ({"inputs": ("factor",)}, "its code run_0 takes tensor 'factor', which is constant"),
        ({"inputs": ("input", "a")}, "its code run_0 reads tensor 'a', which it makes itself"),
        ({"outputs": ("a",)}, "its code run_0 does not give tensor 'c', which others read"),
        ({"arena_bytes": -1}, "its code run_0 takes -1 bytes of memory"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_run_that_is_not_of_the_network(
    module: Module, tmp_path: Path, changes: dict[str, Any], fault: str
) -> None:
    native = native_of(module)
    run = replace(native.runs[0], **changes)
    save(replace(module, native=replace(native, runs=(run,))), tmp_path / "net.vdla")
    message = rf"must be whole; .* damaged \(.*{fault}.*\)\. Compile the network again\."
    with pytest.raises(ModuleError, match=message):
        load(tmp_path / "net.vdla")


def test_two_runs_of_one_layer(module: Module, tmp_path: Path) -> None:
    native = native_of(module)
    runs = (native.runs[0], replace(native.runs[0], name="run_1"))
    save(replace(module, native=replace(native, runs=runs)), tmp_path / "net.vdla")
    with pytest.raises(ModuleError, match=r"run_1 computes layer 0 \(exp\) a second time"):
        load(tmp_path / "net.vdla")


def test_a_layer_of_the_accelerator_has_no_code(module: Module, tmp_path: Path) -> None:
    other = compile_graph(residual(), TINY)
    index = next(k for k, layer in enumerate(other.layers) if layer.device == "vdla")
    run = replace(native_of(module).runs[0], layers=(index,))
    save(replace(other, native=replace(native_of(module), runs=(run,))), tmp_path / "net.vdla")
    name = other.layers[index].name
    with pytest.raises(ModuleError, match=rf"layer {index} \({name}\), which no step executes"):
        load(tmp_path / "net.vdla")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda code: b"", "its library is no shared object"),
        (lambda code: b"MZ" + code[2:], "its library is no shared object"),
        (lambda code: code[:16] + b"\1" + code[17:], "its library is an object of kind 1 for"),
        (
            lambda code: code[:18] + b"\xf3\0" + code[20:],
            "its library is an object of kind 3 for machine 243",
        ),
        (lambda code: code[:40], "its library is no shared object"),
    ],
    ids=["empty", "other", "object", "machine", "short"],
)
def test_a_library_that_is_none(module: Module, tmp_path: Path, change: Any, fault: str) -> None:
    native = replace(native_of(module), library=change(native_of(module).library))
    save(replace(module, native=native), tmp_path / "net.vdla")
    with pytest.raises(ModuleError, match=rf"is cut short or damaged \({fault}"):
        load(tmp_path / "net.vdla")


def test_constants_are_bytes(module: Module, tmp_path: Path) -> None:
    native = replace(native_of(module), constants=np.zeros(6, np.float32))
    save(replace(module, native=native), tmp_path / "net.vdla")
    with pytest.raises(ModuleError, match=r"its code reads float32 constants, not bytes"):
        load(tmp_path / "net.vdla")
