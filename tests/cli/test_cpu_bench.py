"""``vdla bench cpu``: both sides in turn, what one operator takes, and reasons for what is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest

from tests.handmade_native import floats
from vdla.compiler.onnx import export_onnx, import_onnx
from vdla.compiler.zoo import digits
from vdla.errors import InputError, LoweringError
from vdla.runtime.cli import cpu_rows
from vdla.runtime.cli.chains import CHAINED, Convolution, chain
from vdla.runtime.cli.cpu_rows import PARTS, Settings, rows_of
from vdla.runtime.cli.peers import in_nchw, onnx_call, our_call, peer_call
from vdla.runtime.cli.versus import Sample, alternate, compared

SMALL = Convolution(7, 4, 4, 3, 1)
SMALL_STRIDED = Convolution(8, 4, 6, 3, 2)
QUICK = Settings(threads=1, repeats=2, least_seconds=1e-4)


def quiet(done: int, total: int, doing: str) -> None:
    """Tell nobody."""


def test_calls_are_sampled_in_turn_and_back() -> None:
    log: list[str] = []
    taken = alternate([lambda: log.append("a"), lambda: log.append("b")], 3, 0.0)
    assert log == [*"aabb", *"ab", *"ba", *"ab"]  # twice each to warm up
    assert [len(samples) for samples in taken] == [3, 3]
    assert all(sample.wall >= 0 for samples in taken for sample in samples)


def test_a_sample_lasts_a_while() -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1
        sum(range(10_000))

    alternate([call], 1, 0.02)
    assert count > 10


@pytest.mark.parametrize(("threads", "ratio", "clock"), [(1, 3.0, "cpu"), (2, 2.0, "wall")])
def test_ratios_are_taken_sample_by_sample(threads: int, ratio: float, clock: str) -> None:
    ours = [Sample(0.002, 0.001)] * 3
    theirs = [Sample(0.004, 0.003), Sample(0.004, 0.003), Sample(0.4, 0.3)]
    found = compared(ours, theirs, threads=threads)
    assert (found["ratio"], found["clock"]) == (pytest.approx(ratio), clock)
    assert found["ratio_low"] == pytest.approx(ratio)
    assert found["ratio_high"] > 10
    assert found["milliseconds"] == pytest.approx(1 if threads == 1 else 2)
    assert found["wall_milliseconds"] == pytest.approx(2)
    assert found["busy"] is (threads == 1)  # the clock says twice what the processor does
    assert (Sample(3, 2) - Sample(1, 1)) / 4 == Sample(0.5, 0.25)


def test_the_convolutions_are_the_papers() -> None:
    assert list(CHAINED) == [f"C{number}" for number in range(1, 13)]
    assert CHAINED["C1"].macs == 112 * 112 * 64 * 3 * 49
    assert CHAINED["C12"].out_size == 7
    assert [name for name, conv in CHAINED.items() if conv.keeps_shape] == [
        *("C2", "C3", "C6", "C9", "C12")
    ]


@pytest.mark.parametrize("conv", [SMALL, SMALL_STRIDED], ids=str)
def test_a_chain_computes_its_convolution_so_many_times(conv: Convolution) -> None:
    image = np.random.default_rng(0).normal(0, 1, (1, 4, conv.size, conv.size)).astype(np.float32)
    for count in (1, 3):
        model = chain(conv, count)
        onnx.checker.check_model(model, full_check=True)
        graph = import_onnx(model)
        assert sum(graph.macs(node) for node in graph.nodes) == count * conv.macs
        theirs = onnx_call("onnxruntime", model, image, 1)()
        assert theirs.shape == (1, conv.outputs, conv.out_size, conv.out_size)
        np.testing.assert_allclose(our_call(graph, image, 1)(), theirs, atol=1e-4)


def test_a_peer_reads_images_as_it_likes_them() -> None:
    model = export_onnx(digits())
    changed, moved = in_nchw(model)
    onnx.checker.check_model(changed, full_check=True)
    assert moved
    assert [d.dim_value for d in changed.graph.input[0].type.tensor_type.shape.dim] == [1, 1, 8, 8]
    assert len(changed.graph.node) == len(model.graph.node) - 1
    again, moved = in_nchw(changed)
    assert not moved
    assert again == changed


def test_both_sides_run_a_network_of_integers() -> None:
    graph = digits()
    image = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    ours, theirs = our_call(graph, image, 1)(), peer_call("onnxruntime", graph, image, 1)()
    assert ours.shape == theirs.shape
    assert np.abs(ours.astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("conv", [SMALL, SMALL_STRIDED], ids=str)
def test_a_convolution_is_measured(monkeypatch: pytest.MonkeyPatch, conv: Convolution) -> None:
    monkeypatch.setattr(cpu_rows, "CHAINED", {"C": conv})
    monkeypatch.setattr(
        cpu_rows,
        "compared",
        lambda ours, theirs, threads: {
            "milliseconds": 2.0,
            "peer_milliseconds": 4.0,
            "samples": len(ours),
        },
    )
    (row,) = rows_of(["convs"], QUICK, quiet)
    assert (row["part"], row["name"], row["what"], row["peer"]) == (
        *("convs", "C", str(conv), "onnxruntime"),
    )
    assert row["samples"] == 2
    assert row["gflops"] == pytest.approx(2 * conv.macs / 2e6)
    assert row["apart"] < 1e-4


def test_what_this_machine_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_rows, "features", lambda: frozenset({"avx2"}))
    monkeypatch.setattr(cpu_rows, "available_cores", lambda: 1)
    monkeypatch.setattr(cpu_rows, "_network", lambda *arguments: {"ratio": 1.0})
    rows = {row["name"]: row for row in rows_of(["int8", "threads"], QUICK, quiet)}
    assert rows["resnet18 int8"]["ratio"] == 1
    assert rows["resnet18 int8, VNNI"]["why"] == "this processor lacks avx512_vnni"
    assert rows["resnet18 int8, AMX"]["why"] == "this processor lacks amx_int8"
    threads = rows["resnet18 float32, 2 threads over 1"]
    assert threads["why"] == "this process has one core alone"


def test_a_peer_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.runtime.cli.peers.find_spec", lambda name: None)
    monkeypatch.setattr(cpu_rows, "_zoo", lambda name, quantized: digits())
    rows = rows_of(["convs", "networks"], QUICK, quiet)
    assert len(rows) == 18
    assert {row["why"] for row in rows} == {
        "onnxruntime is not installed: pip install onnxruntime",
        "openvino is not installed: pip install openvino",
    }


def test_a_part_that_there_is_not() -> None:
    with pytest.raises(InputError, match=r"must be one of convs, networks, int8, .*, not gpu: "):
        rows_of(["gpu"], QUICK, quiet)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fine(settings: Settings) -> dict[str, Any]:
        samples = [Sample(0.003, 0.001)] * settings.repeats
        found = compared(samples, [Sample(0.002, 0.002)] * settings.repeats, threads=1)
        return {**found, "apart": 1e-6, "gflops": 100.0, "peer_gflops": 50.0}

    def broken(settings: Settings) -> dict[str, Any]:
        raise LoweringError("It has not been built yet.")

    def some() -> Iterator[tuple[dict[str, Any], Callable[[Settings], dict[str, Any]]]]:
        yield {"name": "fine", "what": "small", "peer": "onnxruntime"}, fine
        yield {"name": "broken", "peer": "onnxruntime"}, broken
        yield {"name": "cold", "peer": None}, lambda settings: {"cpu_seconds": 2.5}

    for name in list(PARTS):
        monkeypatch.delitem(PARTS, name)
    monkeypatch.setitem(PARTS, "some", some)


@pytest.mark.usefixtures("parts")
def test_the_command_prints_ratios_and_what_is_missing(vdla_command: Any) -> None:
    outcome = vdla_command("bench", "cpu")
    assert outcome.code == 0
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("fine "))
    assert line.split() == [
        *("fine", "small", "onnxruntime", "1.000", "2.000", "2.00", "2.00", "to", "2.00"),
        *("100", "50", "1.0e-06", "cpu;", "wall", "3.00,", "2.00"),
    ]
    assert "left out: some, broken against onnxruntime: It has not been built yet." in outcome.out
    assert "cold compiled cold in 2.5 CPU seconds" in outcome.out
    assert "something else ran on this machine" in outcome.err


@pytest.mark.usefixtures("parts")
def test_the_command_gives_json(vdla_command: Any) -> None:
    report = json.loads(vdla_command("bench", "cpu", "some", "--repeats", "3", "--json").out)
    assert (report["threads"], report["repeats"]) == (1, 3)
    assert [row["name"] for row in report["rows"]] == ["fine", "broken", "cold"]
    assert report["rows"][0]["ratio"] == 2
    assert report["peers"]["onnxruntime"]


def test_cold_compilation_is_timed_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_rows, "_COLD", "import sys; print(len(sys.argv[1]))")
    assert cpu_rows._cold_seconds("resnet18", True) == 8
    monkeypatch.setattr(cpu_rows, "_COLD", "raise SystemExit('It is too cold.')")
    with pytest.raises(InputError, match=r"Compiling resnet18 failed: It is too cold\."):
        cpu_rows._cold_seconds("resnet18", True)


def test_floats_are_measured_apart_by_their_largest() -> None:
    graph = floats()
    image = np.random.default_rng(0).normal(0, 1, (1, 6)).astype(np.float32)
    ours, theirs = our_call(graph, image, 1)(), peer_call("onnxruntime", graph, image, 1)()
    assert cpu_rows._apart(ours, theirs) < 1e-6
    assert cpu_rows._apart(np.int8([1, 2]), np.int8([1, -2])) == 4


def test_a_second_thread_is_measured(
    monkeypatch: pytest.MonkeyPatch, vdla_command: Callable[..., Any]
) -> None:
    monkeypatch.setattr(cpu_rows, "_zoo", lambda name, quantized: floats())
    monkeypatch.setattr(cpu_rows, "available_cores", lambda: 2)
    (row,) = rows_of(["threads"], QUICK, quiet)
    assert min(row["ratio"], row["peer_ratio"], row["cpu_ratio"], row["milliseconds"]) > 0
    monkeypatch.setattr("vdla.runtime.cli.cpu_rows.rows_of", lambda *arguments: [row])
    out = vdla_command("bench", "cpu", "threads", "--threads", "2").out
    assert "float32, 2 threads over 1: onnxruntime gains " in out
