"""Kernels written to a folder: what lies there is enough to run the network, without vdla."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.fibres import compiled
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.compiler.zoo.builder import Builder
from vdla.errors import InputError
from vdla.runtime import api
from vdla.runtime.emit import emit_source
from vdla.runtime.opencl import OpenClDevice

Array = np.ndarray
Launch = Callable[[Mapping[str, Any], Sequence[Array]], None]


def _graph() -> Graph:
    net = Builder("small", (1, 9, 7, 3))
    x = net.conv("first", "input", 12, 3, 2, (0.0, np.inf), same=True)
    y = net.depthwise("second", x, 1, (0.0, 6.0))
    x = net.add("sum", x, net.conv("third", y, 12, 1))
    return net.finish(net.dense("classes", net.mean("mean", x), 10))


def _ran(folder: Path, launch: Launch, image: Array) -> Array:
    """Run a folder as its manifest says."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (run,) = manifest["runs"]
    weights = np.fromfile(folder / "weights.bin", np.uint8)
    arena = np.full(run["arena_bytes"], 0xA5, np.uint8)
    arrays = {
        name: memory[one["offset"] : one["offset"] + one["size"]]
        for memory, places in ((weights, run["weights"]), (arena, run["arena"]))
        for name, one in places.items()
    }
    (given,), (output,) = run["inputs"], run["outputs"]
    assert given["size"] == image.nbytes
    arrays[given["name"]] = image.reshape(-1).view(np.uint8).copy()
    arrays[output["name"]] = np.zeros(output["size"], np.uint8)
    for call in run["calls"]:
        kernel = manifest["kernels"][call["kernel"]]
        for argument, name in zip(kernel["arguments"], call["arrays"], strict=True):
            need = prod(argument["shape"]) * np.dtype(argument["dtype"]).itemsize
            assert arrays[name].nbytes >= need
        launch(kernel, [arrays[name] for name in call["arrays"]])
    return arrays[output["name"]].view(output["dtype"]).reshape(output["shape"])


def _on_fibres(folder: Path, scratch: Path) -> Launch:
    def launch(kernel: Mapping[str, Any], arrays: Sequence[Array]) -> None:
        source = (folder / kernel["file"]).read_text()
        own = scratch / str(len(list(scratch.iterdir())))
        run = compiled(source, kernel["entry"], own)
        run(kernel["grid"], kernel["block"], [array.ctypes.data for array in arrays])

    scratch.mkdir()
    return launch


def _on_opencl(folder: Path) -> Launch:
    import pyopencl as cl

    (device,) = [d for p in cl.get_platforms() if "Portable" in p.name for d in p.get_devices()]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)

    def launch(kernel: Mapping[str, Any], arrays: Sequence[Array]) -> None:
        program = cl.Program(context, (folder / kernel["file"]).read_text()).build()
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(context, flags, hostbuf=array) for array in arrays]
        everywhere = [a * b for a, b in zip(kernel["grid"], kernel["block"], strict=True)]
        getattr(program, kernel["entry"])(queue, everywhere, kernel["block"], *buffers)
        for argument, array, buffer in zip(kernel["arguments"], arrays, buffers, strict=True):
            if argument["written"]:
                cl.enqueue_copy(queue, array, buffer)

    return launch


@pytest.mark.parametrize("target", ["opencl", "cuda", "metal"])
def test_a_folder_holds_all_that_runs_a_network(
    target: str, tmp_path: Path, pocl: OpenClDevice
) -> None:
    graph, folder = _graph(), tmp_path / "deep" / "source"
    image = np.random.default_rng(8).normal(size=(1, 9, 7, 3)).astype(np.float32)
    files = emit_source(api.compile(graph, target=target, cache=False).module, folder)
    assert sorted(files) == sorted(folder.iterdir())
    launch = _on_opencl(folder) if target == "opencl" else _on_fibres(folder, tmp_path / "built")
    (want,) = Interpreter(graph).run({graph.inputs[0]: image}).values()
    np.testing.assert_allclose(_ran(folder, launch, image), want, 1e-4, 1e-5)
    assert (folder / "host.mm").exists() == (target == "metal")


def _keys(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_keys, value))
    if not isinstance(value, dict):
        return set()
    return {*value}.union(*map(_keys, value.values()))


def test_the_host_program_reads_what_the_manifest_has(tmp_path: Path) -> None:
    emit_source(api.compile(_graph(), target="metal", cache=False).module, tmp_path)
    text = (tmp_path / "host.mm").read_text()
    read = {*re.findall(r'\[@"(\w+)"\]', text), "inputs", "outputs"}
    assert read <= _keys(json.loads((tmp_path / "manifest.json").read_text()))
    assert {"calls", "arrays", "kernel", "file", "entry", "grid", "block", "offset"} < read


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be kernels alone to be written as source, and "):
        emit_source(api.compile("digits").module, tmp_path)
    (tmp_path / "file").touch()
    module = api.compile(_graph(), target="cuda", cache=False).module
    with pytest.raises(InputError, match=r"Sources must go to a folder that can be written: "):
        emit_source(module, tmp_path / "file")
