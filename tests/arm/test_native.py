"""Code compiled for ARM, loaded and run by a board's own Python, which has numpy alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import vdla
from tests.arm.machine import MACHINES, Machine, machine_of
from tests.compiler.targets.cpu import arithmetic_check
from tests.compiler.targets.cpu.arithmetic import arithmetic_library
from tests.compiler.targets.cpu.handmade import library
from vdla.compiler.graph import Graph, import_tflite
from vdla.module import Execute, Module
from vdla.runtime.devices.host import Host

pytestmark = pytest.mark.slow

IMAGES = 4

POOL = """\
import sys
import numpy as np
from vdla.processor import architecture
from vdla.runtime.native import Library

for threads in (1, 2, 3):
    with Library("pool.so", threads=threads) as library:
        assert library.info.architecture == architecture()
        for name in library.info.functions:
            if name.startswith("meeting") and threads < int(name.split("_")[1]):
                continue  # it would wait for ever
            function = library.function(name)
            counts = np.zeros(function.arguments[0].shape, np.int32)
            for _ in range(3):
                counts[...] = 0
                function(counts)
            kind, number, *loops = name.split("_")
            wanted = {"network": loops, "meeting": [number]}.get(kind) or [1]
            assert (counts == int(wanted[0])).all(), (threads, name, counts)
assert not [name for name in sys.modules if name.startswith("llvmlite")]
print("done")
"""
ARITHMETIC = """\
from arithmetic_check import check
from vdla.runtime.native import Library

with Library("arithmetic.so") as library:
    print(check(library))
"""
NETWORK = """\
import numpy as np
import vdla

network = vdla.load("network.vdla").to("cpu", threads=2)
np.save("scores.npy", network(np.load("images.npy")))
print(network.cpu_level)
"""
RUNS = """\
import numpy as np
from vdla.module import load
from vdla.runtime.devices.compiled import load_runs

module = load("network.vdla")
values = dict(np.load("values.npz"))
results = {}
for spec, run in zip(module.native.runs, load_runs(module, threads=2, pin=False)):
    results.update(run.execute({name: values[name] for name in spec.inputs}))
np.savez("results.npz", **results)
print(len(results))
"""
WITH_DOT = {"aarch64-neon": ("aarch64-neon", "aarch64-dot")}
"""Levels that a machine runs, where one of them multiplies integers by instructions of its own."""
PLACED = {"maxpool": "cpu", "layer4_1_conv2": "cpu", "layer4_1_add": "cpu", "mean": "cpu"}
"""What of ResNet-18 goes to the processor here beside its input and its classifier, so that there
is something of every kind."""


@pytest.fixture(scope="module", params=MACHINES)
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    with machine_of(request.param, tmp_path_factory.mktemp("machine") / "root") as one:
        yield one


def test_loops_run_on_threads(machine: Machine) -> None:
    (machine.folder / "pool.so").write_bytes(library(machine.level))
    assert machine.run(POOL) == "done"


def test_arithmetic_without_instructions_is_numpys(machine: Machine) -> None:
    shutil.copy(arithmetic_check.__file__, machine.folder)
    (machine.folder / "arithmetic.so").write_bytes(arithmetic_library(machine.level))
    assert machine.run(ARITHMETIC) == "36"


def scores(
    machine: Machine, model: Path | Graph, images: np.ndarray, level: str = ""
) -> np.ndarray:
    level = level or machine.level
    network = vdla.compile(model, target="cpu", cpu=level)
    network.save(machine.folder / "network.vdla")
    np.save(machine.folder / "images.npy", images)
    assert machine.run(NETWORK) == level
    return np.load(machine.folder / "scores.npy").reshape(len(images), -1)


def test_resnet8_in_int8_is_litert_to_the_bit(machine: Machine, shared_data: Path) -> None:
    graph = import_tflite(shared_data / "mlperf_tiny/resnet8_int8.tflite")
    last = graph.nodes[-1]
    assert last.op == "softmax"
    graph = Graph(graph.name, graph.tensors, graph.nodes[:-1], graph.inputs, last.inputs)
    data = np.load(shared_data / "images/cifar10_test_500.npz")
    images = (data["images"][:IMAGES].astype(np.int16) - 128).astype(np.int8)
    for level in WITH_DOT.get(machine.level, (machine.level,)):
        found = scores(machine, graph, images, level)
        np.testing.assert_array_equal(found, data["resnet8_int8_litert_logits"][:IMAGES])


def test_resnet8_in_float32_is_litert_s(machine: Machine, shared_data: Path) -> None:
    data = np.load(shared_data / "images/cifar10_test_500.npz")
    images = data["images"][:IMAGES].astype(np.float32)
    found = scores(machine, shared_data / "mlperf_tiny/resnet8_float.tflite", images)
    wanted = data["resnet8_float_litert"][:IMAGES]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


def test_resnet18_s_part_on_the_processor_is_numpy_s(machine: Machine) -> None:
    network = vdla.compile("resnet18", cpu=machine.level, place=PLACED | {"dense": "cpu"})
    network.save(machine.folder / "network.vdla")
    native = network.module.native
    assert native is not None
    assert sum(len(run.layers) for run in native.runs) == 6

    random = np.random.default_rng(0)
    values: dict[str, np.ndarray] = {}
    wanted: dict[str, np.ndarray] = {}
    for run in native.runs:
        given = {
            name: random.integers(-128, 128, network.module.tensors[name].shape).astype(np.int8)
            for name in run.inputs
        }
        values |= given
        found = in_numpy(network.module, run.layers, given)
        wanted |= {name: found[name] for name in run.outputs}
    np.savez(machine.folder / "values.npz", **values)
    assert machine.run(RUNS) == str(len(wanted))
    results = np.load(machine.folder / "results.npz")
    assert set(results) == set(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(results[name], array)


def in_numpy(
    module: Module, layers: Sequence[int], values: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return what layers give by numpy, which shares nothing with machine code."""
    with pytest.warns(RuntimeWarning, match="its layers run in numpy"):
        host = Host(module)
    for layer in layers:
        values = values | host.execute(Execute(layer), values)
    return values
