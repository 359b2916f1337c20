"""``vdla bench gpu``: what is counted, what is compared and timed, and reasons for what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.runtime.cuda_standin import Driver
from vdla.compiler.gpu import compile_network
from vdla.compiler.gpu.loads import Loads, network_loads, unfused_networks
from vdla.compiler.zoo.builder import Builder
from vdla.errors import InputError
from vdla.runtime import cuda
from vdla.runtime.cli import gpu_rows
from vdla.runtime.cli.chains import Convolution, chain
from vdla.runtime.cli.gpu_models import (
    CONVOLUTIONS,
    HIDDEN,
    LSTM,
    NETWORKS,
    PRODUCTS,
    STEPS,
    Measured,
)
from vdla.runtime.cli.gpu_rows import Settings, rows_of
from vdla.runtime.cli.torch_peer import TorchLstm, TorchModel
from vdla.runtime.cuda import CudaDevice
from vdla.runtime.opencl import OpenClDevice

QUICK = Settings(repeats=3, least_seconds=1e-9)


def _quiet(done: int, total: int, doing: str) -> None:
    """Tell nobody."""


def _small() -> Measured:
    conv = Convolution(6, 4, 5, 3, 2)
    image = np.random.default_rng(3).normal(size=(1, 4, 6, 6)).astype(np.float32)
    return Measured(str(conv), chain(conv, 1), image)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_rows, "PARTS", {"convs": {"small": _small}})


def _expected(one: Measured) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        one.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {session.get_inputs()[0].name: one.image})
    return np.asarray(found)


class _Peer:
    """Stands for PyTorch: right by ONNX Runtime, and six milliseconds a run."""

    dtypes: ClassVar[list[str]] = []

    wrong = 0.0

    def __init__(
        self,
        model: onnx.ModelProto,
        image: np.ndarray,
        *,
        dtype: str = "float32",
        pixels: bool = False,
    ) -> None:
        self.dtypes.append(f"{dtype}, by pixels" if pixels else dtype)
        self._made = _expected(Measured("", model, image))

    def run(self) -> None:
        """Do nothing."""

    def output(self) -> np.ndarray:
        return self._made + self.wrong

    def recorded(self) -> Callable[[], None]:
        return self.run

    def seconds(self, work: Callable[[], None], count: int) -> float:
        work()
        return 0.006


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CudaDevice:
    driver = Driver(tmp_path / "modules", "NVIDIA H100")
    monkeypatch.setattr(cuda, "_bindings", {"driver": driver}.__getitem__)
    monkeypatch.setattr(cuda, "compile_source", lambda source, architecture: source.encode())
    monkeypatch.setattr(gpu_rows, "missing_torch", lambda: None)
    monkeypatch.setattr(gpu_rows, "TorchModel", _Peer)
    return CudaDevice()


def test_both_sides_are_compared_and_timed(small: None, device: CudaDevice) -> None:
    (row,) = rows_of(["convs"], device, QUICK, _quiet, ["float32"])
    assert (row["part"], row["name"], row["what"]) == ("convs", "small", "6x6 4->5, 3x3 s2")
    assert row["macs"] == 3 * 3 * 5 * 4 * 9
    assert row["apart"] < 1e-6
    # The stand-in takes two milliseconds for the one kernel of the convolution: no transposes.
    assert row["loads"]["fused"]["calls"] == 1
    assert row["milliseconds"] == row["milliseconds_high"] == pytest.approx(2)
    assert row["peer_milliseconds"] == pytest.approx(6)
    assert row["ratio"] == row["ratio_low"] == pytest.approx(3)
    assert row["effects"] == {}  # one operator of stride 2, on a small tile


def test_what_each_thing_is_worth_is_timed(
    device: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    conv = Convolution(6, 8, 16, 3, 1)
    image = np.random.default_rng(3).normal(size=(1, 8, 6, 6)).astype(np.float32)
    model = chain(conv, 1)
    model.graph.node.append(onnx.helper.make_node("Sigmoid", ["conv0"], ["out"]))
    model.graph.output[0].name = "out"
    parts = {"convs": {"one": lambda: Measured("one", model, image)}}
    monkeypatch.setattr(gpu_rows, "PARTS", parts)
    monkeypatch.setattr(_Peer, "dtypes", [])
    single, half = rows_of(["convs"], device, QUICK, _quiet)
    # A kernel takes the stand-in two milliseconds, whatever it does: two operators, and images
    # transformed, multiplied and transformed back.
    assert single["effects"] == {
        "without fusion": pytest.approx((2, 2, 2)),
        "by Winograd's algorithm": pytest.approx((3, 3, 3)),
    }
    assert list(half["effects"]) == ["without tensor cores"]
    assert (half["warp_calls"], half["loads"]["plain"]["warp_products"]) == (1, 0)
    # 36 pixels in a block of 64, by two warps of 2 tiles; 72 terms in steps of 32.
    assert half["loads"]["matrices"]["warp_products"] == 64 * 16 * 96
    assert 1e-6 < half["apart"] < 2 * 2 * 2**-11
    # Each is compared with float32, and timed against the faster of its own.
    assert _Peer.dtypes == ["float32", "float32", "float16", "float16, by pixels"]


def test_what_differs_is_not_timed(
    small: None, device: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Peer, "wrong", 0.5)
    (row, _) = rows_of(["convs"], device, QUICK, _quiet)
    assert row["why"].startswith("the outputs differ by ")
    assert "ratio" not in row


def test_on_a_processor_it_is_counted_alone(
    small: None, pocl: OpenClDevice, vdla_command: Any, tmp_path: Path
) -> None:
    said = vdla_command("bench", "gpu", "--device", "opencl", "--json", tmp_path / "rows.json")
    row, half = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert (row["dtype"], half["dtype"]) == ("float32", "float16")
    loads = row["loads"]["fused"]
    assert f" {loads['unshared'] / loads['memory']:.1f}x\n" in said.out
    if pocl.on_processor:
        assert "milliseconds" not in row
        assert "not measured: small: " in said.err
        assert row["why"].endswith(" is the processor")


def test_without_a_device_it_says_so(
    small: None, vdla_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cuda", None)
    said = vdla_command("bench", "gpu")
    assert "not measured: small: there is no device" in said.err
    assert "CUDA needs the package cuda-bindings" in said.err
    assert "6x6 4->5, 3x3 s2" in said.out


def test_virtual_threads_are_shown_with_and_without(
    vdla_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = {"products": {"square": PRODUCTS["square"]}}
    monkeypatch.setattr(gpu_rows, "PARTS", only)
    (row,) = rows_of(["products"], None, QUICK, _quiet, ["float32"])
    # 8 x 16 blocks of 4 warps in 64 steps of 70 vectors a thread: 32 of rows, 32 of columns, and 6
    # that it fills. Quarters of a warp take a pass each.
    requests = 8 * 16 * 4 * 64 * 70
    assert row["shared"]["pieces"] == {
        "requests": requests,
        "wavefronts": 4 * requests,
        "conflicts": 0,
    }
    # In one piece of 8 columns, each of the 32 vectors of columns takes twice as long.
    conflicts = requests // 70 * 32 * 4
    assert row["shared"]["one_piece"] == {
        "requests": requests,
        "wavefronts": 4 * requests + conflicts,
        "conflicts": conflicts,
    }
    said = vdla_command("bench", "gpu", "--dtype", "float32")
    (line,) = [line.split() for line in said.out.splitlines() if line.startswith("square   ")][1:]
    assert line == ["square", "9.18", "0.00", "13.37", "4.19", "1.46x"]


def test_a_part_that_there_is_not() -> None:
    with pytest.raises(
        InputError,
        match=r"A part of this benchmark must be one of convs, products, networks, not trains: ",
    ):
        rows_of(["trains"], None, QUICK, _quiet)


def test_fusion_saves_what_lies_between() -> None:
    net = Builder("two", (1, 4, 4, 4))
    x = net.depthwise("wide", "input", 1, (0.0, 6.0))
    graph = net.finish(net.add("sum", x, "input"))
    fused, apart = network_loads(compile_network(graph)), network_loads(*unfused_networks(graph))
    assert (fused.calls, apart.calls) == (1, 2)
    between = 4 * 4 * 4  # written once and read once
    assert fused.written == between
    assert apart.written == 2 * between
    assert apart.memory == fused.memory + between
    assert Loads(1, 5, 2, 7, 1).unshared == 10


def test_the_layer_of_an_lstm_is_one() -> None:
    one = NETWORKS["lstm"]()
    held = {t.name: onnx.numpy_helper.to_array(t) for t in one.model.graph.initializer}
    h, c = np.zeros((2, HIDDEN))
    rows = []
    for x in one.image.astype(np.float64):
        gates = held["of_input"] @ x + held["of_state"] @ h + held["bias"]
        i, f, g, o = gates.reshape(4, HIDDEN)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        rows.append(h)
    assert len(rows) == STEPS
    np.testing.assert_allclose(_expected(one), rows, 1e-4, 1e-5)


def test_the_generator_makes_an_image() -> None:
    made = _expected(NETWORKS["dcgan"]())
    assert made.shape == (1, 3, 64, 64)
    assert 0.1 < np.ptp(made) <= 2


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["C1", "C5", "C12", *PRODUCTS, *NETWORKS])
def test_pytorch_computes_what_onnxruntime_does(name: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    one = {**CONVOLUTIONS, **PRODUCTS, **NETWORKS}[name]()
    peers = [
        (TorchModel(one.model, one.image, "cpu"), 1e-5),
        (TorchModel(one.model, one.image, "cpu", pixels=True), 1e-5),
        (TorchModel(one.model, one.image, "cpu", dtype="float16"), 5e-2),
    ]
    if name == LSTM:
        peers.append((TorchLstm(one.model, one.image, "cpu"), 1e-5))
    want = _expected(one)
    for model, most in peers:
        model.run()
        assert np.abs(model.output() - want).max() <= most * np.abs(want).max()
