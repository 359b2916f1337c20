"""Networks compiled for the processor: from a model to the interpreter's results, kept by level."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vdla
from tests.handmade_native import floats
from tests.networks import images_for, residual
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.cpu import host_target
from vdla.errors import DeviceError, InputError, ModelError
from vdla.runtime.devices.host_run import Turn
from vdla.runtime.devices.processor import ProcessorDevice
from vdla.runtime.network import Network

GRAPH = residual()
IMAGES = images_for(GRAPH, 3)


@pytest.fixture(scope="module")
def network() -> Network:
    return vdla.compile(GRAPH, target="cpu", cache=False)


def test_everything_is_one_function_for_this_machine(network: Network) -> None:
    native = network.module.native
    assert native is not None
    assert network.cpu_level == native.level == host_target().level
    (run,) = native.runs
    assert run.layers == tuple(range(len(network.module.layers)))
    assert (run.inputs, run.outputs) == (("input",), ("softmax.out",))
    assert not network.programs
    assert network.module.arena_bytes == 0


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_integers_are_the_interpreters(network: Network, threads: int | None) -> None:
    run = network.run(IMAGES, check=True, threads=threads)
    assert run.bit_exact, run.first_difference
    expected = Interpreter(GRAPH).run(IMAGES)["softmax.out"]
    np.testing.assert_array_equal(run.outputs["softmax.out"], expected)
    assert run.summary()["processor_seconds"] > 0


def test_on_the_device_without_being_told(network: Network, tmp_path: Path) -> None:
    expected = Interpreter(GRAPH).run(IMAGES)["softmax.out"]
    network.save(tmp_path / "net.vdla")
    loaded = vdla.load(tmp_path / "net.vdla")
    np.testing.assert_array_equal(loaded(IMAGES), expected)
    assert isinstance(loaded.device, ProcessorDevice)
    loaded.to("cpu", threads=2, pin=True)
    rows = [answer.outputs["softmax.out"] for answer in loaded.stream(IMAGES)]
    np.testing.assert_array_equal(np.stack(rows), expected)
    loaded.close()


def test_threads_of_a_caller_take_turns() -> None:
    images = images_for(GRAPH, 64)
    network = vdla.compile(GRAPH, target="cpu", cache=False).to("cpu", threads=1)
    expected = network(images)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(network, np.split(images, 16)))
    network.close()
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_a_child_does_not_wait_for_a_turn_that_the_parent_had() -> None:
    network = vdla.compile(GRAPH, target="cpu", cache=False).to("cpu", threads=1)
    expected = network(IMAGES)
    turns = list(Turn._every)
    for turn in turns:
        turn.lock.acquire()  # as a thread of the parent that is in a run while another forks
    child = os.fork()
    if not child:
        signal.alarm(30)
        os._exit(0 if np.array_equal(network(IMAGES), expected) else 1)
    for turn in turns:
        turn.lock.release()
    assert os.waitpid(child, 0)[1] == 0
    network.close()


def test_floats_are_near_the_interpreters() -> None:
    network = vdla.compile(floats(), target="cpu", cache=False)
    images = np.random.default_rng(0).normal(0, 1, (4, 6)).astype(np.float32)
    assert network.run(images, check=True).bit_exact


def test_what_stays_beside_the_accelerator_is_compiled_too() -> None:
    place = {"stem": "cpu", "dense": "cpu"}
    network = vdla.compile(GRAPH, place=place, cpu="host", cache=False)
    native = network.module.native
    assert native is not None
    layers = network.module.layers
    compiled = [[layers[index].name for index in run.layers] for run in native.runs]
    assert compiled[0] == ["stem"]
    assert compiled[-1][-2:] == ["dense", "softmax"]
    run = network.run(IMAGES, device="functional", check=True)
    assert run.bit_exact, run.first_difference


def test_without_a_level_numpy_runs_beside_the_accelerator() -> None:
    assert vdla.compile(GRAPH, cache=False).module.native is None


def test_a_network_with_programs_needs_an_accelerator() -> None:
    network = vdla.compile(GRAPH, cache=False)
    rule = r"^A network must have all its operators on the processor to run on the device cpu, "
    with pytest.raises(DeviceError, match=rule):
        network.run(IMAGES, device="cpu")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"target": "gpu"},
            InputError,
            "target must be one of vdla, cpu, opencl, cuda, metal, ptx, not 'gpu': choose one",
        ),
        ({"target": "opencl", "cpu": "host"}, InputError, "cpu must be left out with the target"),
        (
            {"target": "cpu", "dtype": "float16"},
            InputError,
            "dtype must go with the target opencl, cuda, metal or ptx, whose kernels it is for, "
            "not with cpu",
        ),
        (
            {"target": "opencl", "dtype": "float64"},
            InputError,
            "dtype must be one of float16, float32, not 'float64'",
        ),
        (
            {"target": "opencl", "winograd": 3},
            InputError,
            "winograd must be 2 or 4, rows and columns of a tile, or 0 for none, not 3: choose one",
        ),
        (
            {"target": "cpu", "winograd": 4},
            InputError,
            "winograd must go with kernels, the target or gpu opencl, cuda, metal or ptx, and "
            "there are none: leave winograd out",
        ),
        (
            {"target": "ptx", "matrices": True},
            InputError,
            "matrices must go with kernels for cuda, since only CUDA C has instructions for tensor "
            "cores here, not with ptx: leave matrices out, or compile for the target cuda",
        ),
        ({"matrices": True}, InputError, "matrices must go with kernels for cuda, .* with none: "),
        ({"target": "opencl", "gpu": "cuda"}, InputError, "gpu must be left out with the target"),
        ({"target": "cpu", "gpu": "cuda"}, InputError, "gpu must go with the target vdla"),
        (
            {"gpu": "vulkan"},
            InputError,
            "gpu must be one of opencl, cuda, metal, ptx, not 'vulkan'",
        ),
        ({"target": "cpu", "place": {"stem": "cpu"}}, InputError, "place must be left out with"),
        ({"cpu": "i386"}, DeviceError, "A CPU target must be one of .*armv7-neon, not 'i386'"),
    ],
    ids=str,
)
def test_what_cannot_be_compiled_for(
    options: dict[str, object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        vdla.compile(GRAPH, **options)  # type: ignore[arg-type]


def test_what_the_processor_cannot_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from vdla.compiler.network import placement

    def refusal(graph: Graph, node: object) -> str | None:
        return "it is tired" if getattr(node, "name", "") == "body" else None

    monkeypatch.setattr(placement, "host_refusal", refusal)
    with pytest.raises(ModelError, match=r"with the target cpu, and these cannot: body \(conv2d\)"):
        vdla.compile(GRAPH, target="cpu", cache=False)


def test_levels_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VDLA_CACHE", str(tmp_path))
    found = [
        vdla.compile(floats(), **options).cpu_level  # type: ignore[arg-type]
        for options in (
            {},
            {"target": "cpu"},
            {"target": "cpu", "cpu": "x86-64"},
            {"target": "cpu", "cpu": "x86-64"},
            {"cpu": "x86-64"},
        )
    ]
    assert found == [None, host_target().level, "x86-64", "x86-64", "x86-64"]
    assert len(list((tmp_path / "modules").glob("*.vdla"))) == 4
