"""Compiled networks kept by content."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vdla
from tests.networks import images_for, residual
from vdla.compiler.graph import Graph
from vdla.config import PYNQ_Z1, TINY
from vdla.runtime import modules
from vdla.runtime.modules import fingerprint
from vdla.runtime.network import Network


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VDLA_CACHE", str(tmp_path))
    return tmp_path / "modules"


def compiled(graph: Graph | Path | str, **options) -> tuple[Network, bool]:
    """Return a network, and whether it had to be compiled."""
    seen: list[str] = []
    network = vdla.compile(graph, progress=lambda *step: seen.append(step[2]), **options)
    return network, bool(seen)


def test_the_second_time_nothing_is_compiled(folder: Path) -> None:
    first, made = compiled(residual())
    second, again = compiled(residual())
    assert (made, again) == (True, False)
    images = images_for(residual(), 2)
    for name, values in first.run(images).outputs.items():
        np.testing.assert_array_equal(second.run(images).outputs[name], values)
    assert first.run(images).cycles == second.run(images).cycles


def test_without_the_cache_nothing_is_kept(folder: Path) -> None:
    assert compiled(residual(), cache=False)[1]
    assert not folder.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"config": TINY},
        {"config": PYNQ_Z1.replace(dram_latency_cycles=99)},
        {"vthreads": 1},
        {"place": {"stem": "cpu"}},
    ],
    ids=lambda o: next(iter(o)),
)
def test_whatever_may_change_the_result_is_compiled_anew(folder: Path, options) -> None:
    compiled(residual())
    assert compiled(residual(), **options)[1]
    assert not compiled(residual(), **options)[1]


def test_a_file_is_known_by_its_bytes(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "mlperf_tiny" / "resnet8_int8.tflite"
    file = tmp_path / source.name
    file.write_bytes(source.read_bytes())
    assert fingerprint(source, PYNQ_Z1, {}) == fingerprint(file, PYNQ_Z1, {})
    raw = bytearray(source.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    assert fingerprint(source, PYNQ_Z1, {}) != fingerprint(file, PYNQ_Z1, {})


def test_a_graph_is_known_by_its_weights_and_scales() -> None:
    graph = residual()
    name = "body.weight"
    tensor = graph.tensors[name]
    assert tensor.data is not None
    assert tensor.quant is not None
    changed = tensor.data.copy()
    changed[0, 0, 0, 0] ^= 1
    variants = [
        replace(tensor, data=changed),
        replace(tensor, quant=replace(tensor.quant, scale=tensor.quant.scale * 2)),
    ]
    keys = {fingerprint(graph, PYNQ_Z1, {}), fingerprint(residual(), PYNQ_Z1, {})}
    assert len(keys) == 1
    for variant in variants:
        tensors = {**graph.tensors, name: variant}
        other = Graph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)
        keys.add(fingerprint(other, PYNQ_Z1, {}))
    assert len(keys) == 3


def test_a_damaged_file_is_made_again(folder: Path) -> None:
    compiled(residual())
    (file,) = folder.glob("*.vdla")
    file.write_bytes(file.read_bytes()[:1000])
    assert compiled(residual())[1]
    assert not compiled(residual())[1]


def test_where_nothing_can_be_written_compilation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    monkeypatch.setenv("VDLA_CACHE", str(blocker))
    assert compiled(residual())[1]


def test_the_oldest_go_when_there_are_too_many(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(residual())
    (old,) = folder.glob("*.vdla")
    os.utime(old, (1, 1))
    monkeypatch.setattr(modules, "_KEPT_BYTES", old.stat().st_size + 1)
    compiled(residual(1))
    (left,) = folder.glob("*.vdla")
    assert left != old


def test_of_two_patterns_the_later_one_holds_in_the_cache_too(folder: Path) -> None:
    wishes = {"s*": "cpu", "*em": "vdla"}
    for place in (wishes, dict(reversed(wishes.items()))):
        network, made = compiled(residual(), place=place)
        layers = {layer.name: layer.device for layer in network.module.layers}
        assert made
        assert layers["stem"] == list(place.values())[-1]
