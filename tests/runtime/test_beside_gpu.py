"""Layers that stay off the accelerator on a GPU beside it: where each goes, and what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.reference import Interpreter
from vdla.compiler.zoo import built_in
from vdla.errors import DeviceError, VdlaWarning
from vdla.runtime import api
from vdla.runtime.devices import parts_of
from vdla.runtime.network import Network
from vdla.runtime.opencl import OpenClDevice

BESIDE = "functional+opencl:portable computing"
F32 = np.dtype(np.float32)


def with_a_tail_of_floats() -> Graph:
    """Return the digits network with its scores made probabilities, and what is done to those."""
    digits = built_in("digits")
    (scores,) = digits.outputs
    shape = digits.tensors[scores].shape
    tail = [Tensor(name, shape, F32) for name in ("real", "chance", "root")]
    nodes = [
        Node("to_real", "dequantize", (scores,), ("real",), {}),
        Node("softmax", "softmax", ("real",), ("chance",), {"axis": 1, "beta": 1.0}),
        Node("sqrt", "sqrt", ("chance",), ("root",), {}),
    ]
    tensors = [*digits.tensors.values(), *tail]
    return Graph("digits_and_more", tensors, [*digits.nodes, *nodes], digits.inputs, ["root"])


@pytest.fixture(scope="module")
def network() -> Network:
    return api.compile(with_a_tail_of_floats(), gpu="opencl", cache=False)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    (name,) = built_in("digits").inputs
    shape = built_in("digits").tensors[name].shape[1:]
    return np.random.default_rng(11).integers(-128, 128, (3, *shape), dtype=np.int8)


def test_what_has_kernels_goes_to_the_gpu(network: Network) -> None:
    devices = {layer.name: layer.device for layer in network.module.layers}
    assert {name for name, device in devices.items() if device == "gpu"} >= {"softmax", "sqrt"}
    assert {"vdla", "gpu"} <= set(devices.values())
    assert network.module.gpu is not None
    *_, last = network.module.gpu.runs
    assert [network.module.layers[k].name for k in last.layers][-2:] == ["softmax", "sqrt"]


def test_both_together_equal_the_interpreter(
    network: Network, images: np.ndarray, pocl: OpenClDevice, tmp_path: Path
) -> None:
    network.save(tmp_path / "net.vdla")
    for one in (network, api.load(tmp_path / "net.vdla")):
        found = one.run(images, device=BESIDE, check=True)
        assert found.bit_exact
        graph = with_a_tail_of_floats()
        (name,) = graph.inputs
        want = [Interpreter(graph).run({name: image[None]})["root"] for image in images]
        np.testing.assert_allclose(found.outputs["root"], np.concatenate(want), 1e-5)
    answers = list(network.to(BESIDE).stream(images))
    assert network.gpu == pocl.name
    network.close()
    assert network.gpu is None
    np.testing.assert_allclose([a.outputs["root"] for a in answers], np.concatenate(want), 1e-5)


def test_without_a_gpu_numpy_takes_its_place(
    network: Network, images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*given: Any) -> Any:
        raise DeviceError("there is no GPU")

    monkeypatch.setattr("vdla.runtime.devices.kernels.open_gpu", none)
    with pytest.warns(
        VdlaWarning,
        match=r"digits_and_more has kernels for a GPU, and their layers run in numpy, which is "
        r"slower: there is no GPU",
    ):
        found = network.run(images, device="functional", check=True)
    assert found.bit_exact
    whole = api.compile(_floats(), target="opencl", cache=False)
    monkeypatch.setattr("vdla.runtime.network.open_gpu", none)
    with pytest.raises(DeviceError, match="there is no GPU"):  # there is nothing else it is for
        whole.run(np.zeros((1, 4), np.float32))


def _floats() -> Graph:
    tensors = [Tensor(name, (1, 4), F32) for name in ("a", "b")]
    return Graph("floats", tensors, [Node("exp", "exp", ("a",), ("b",), {})], ["a"], ["b"])


def test_a_network_for_a_gpu_runs_in_numpy_where_that_is_asked_for() -> None:
    given = np.linspace(-1, 1, 4, dtype=np.float32)[None]
    found = api.compile(_floats(), target="cuda", cache=False).run(given, device="cpu")
    np.testing.assert_allclose(found.outputs["b"], np.exp(given), 1e-6)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("cycle", ("cycle", None)),
        ("opencl", ("cpu", ("opencl", None))),
        ("cuda:1", ("cpu", ("cuda", "1"))),
        ("cycle+opencl:pocl", ("cycle", ("opencl", "pocl"))),
        ("pynq@10.0.0.2", ("pynq@10.0.0.2", None)),
    ],
)
def test_a_devices_name_has_parts(name: str, parts: object) -> None:
    assert parts_of(name) == parts


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: parts_of("cycle+tpu"),
            r"A GPU beside an accelerator must be one of cuda, opencl, not 'tpu': name it as in "
            r"cycle\+opencl, or cycle\+opencl:NAME for one of several\.",
        ),
        (
            lambda: api.compile("digits").run(np.zeros((8, 8, 1), np.int8), device="opencl"),
            r"A network must have kernels to run on opencl, and .* has none: compile it with the "
            r"target opencl, or with gpu='opencl' beside an accelerator\.",
        ),
        (
            lambda: api.compile(_floats(), target="metal").run(np.zeros((1, 4), np.float32)),
            r"Kernels must be for opencl or cuda to run from Python, not for metal: write its "
            r"source with --emit-source, which brings a host program\.",
        ),
    ],
)
def test_what_does_not_go_together(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        ask()


def test_kernels_in_another_language(pocl: OpenClDevice) -> None:
    network = api.compile(_floats(), target="cuda", cache=False)
    with pytest.raises(
        DeviceError,
        match=r"Kernels must be in the language of the device, opencl on .*, and those of floats "
        r"are for cuda: compile the network with the target opencl, or name another device\.",
    ):
        network.run(np.zeros((1, 4), np.float32), device="opencl")
