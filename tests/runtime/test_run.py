"""Running small networks: inputs, devices, results, checks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vdla
from tests.configs import EVERY, MATRIX
from tests.networks import Draft, as_uint8, images_for, residual
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.config import PYNQ_Z1, TINY
from vdla.errors import DeviceError, InputError, ModelError, ModuleError
from vdla.runtime.network import Network


@pytest.fixture(scope="module")
def network() -> Network:
    return vdla.compile(residual())


def expected(graph: Graph, images: np.ndarray) -> np.ndarray:
    return Interpreter(graph).run(images)[graph.outputs[0]]


@pytest.mark.parametrize("device", ["functional", "cycle"])
@pytest.mark.parametrize("config", MATRIX, ids=[config.name for config in MATRIX])
def test_every_configuration_equals_the_interpreter(config: vdla.Config, device: str) -> None:
    graph = residual()
    images = images_for(graph, 5)  # no multiple of any batch
    run = vdla.compile(graph, config=config).run(images, device=device, check=True)
    np.testing.assert_array_equal(run.outputs["softmax.out"], expected(graph, images))
    assert run.bit_exact, run.first_difference


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
def test_a_uint8_network_equals_the_interpreter(config: vdla.Config) -> None:
    """With weights beyond int8 in every layer, on the accelerator and back on the cpu."""
    graph = as_uint8(residual())
    images = images_for(graph, 5).view(np.uint8)
    expected = Interpreter(graph).run(images)["softmax.out"]
    for place in ({}, {"body": "cpu", "down": "cpu"}):
        compiled = vdla.compile(graph, config=config, place=place)
        run = compiled.run(images, device="functional", check=True)
        assert run.bit_exact, run.first_difference
        np.testing.assert_array_equal(run.outputs["softmax.out"], expected)
    on_cpu = {
        layer.op
        for layer in vdla.compile(graph, config=config).module.layers
        if layer.device == "cpu"
    }
    assert on_cpu <= {"softmax", "unfold", "space_to_depth"}


@pytest.mark.parametrize("at_once", [1, 3, 5, 100])
def test_images_may_run_in_any_portions(network: Network, at_once: int) -> None:
    images = images_for(residual(), 5)
    run = network.run(images, device="functional", max_images_at_once=at_once)
    np.testing.assert_array_equal(run.outputs["softmax.out"], expected(residual(), images))


@pytest.mark.parametrize(
    "place",
    [
        {"sum": "cpu"},
        {"pool": "cpu"},
        {"dense": "cpu"},
        {"stem": "vdla"},
        dict.fromkeys(("body", "sum", "down", "pool", "dense"), "cpu"),
    ],
    ids=["middle", "view", "end", "all", "none"],
)
def test_every_placement_equals_the_interpreter(place: dict[str, str]) -> None:
    graph = residual()
    images = images_for(graph, 2)
    run = vdla.compile(graph, place=place).run(images, check=True)
    np.testing.assert_array_equal(run.outputs["softmax.out"], expected(graph, images))
    assert run.bit_exact, run.first_difference


def test_programs_add_up_around_an_operator_on_the_cpu() -> None:
    net = Draft("middle", (1, 6, 6, 16))
    x = net.pad("pad", net.conv("a", "input", 16), 1)
    graph = net.finish(net.conv("b", x, 16))
    network = vdla.compile(graph)
    assert len(network.programs) == 2
    run = network.run(images_for(graph, 1), check=True)
    assert run.bit_exact
    rows = {layer["name"]: layer for layer in run.summary()["layers"]}
    assert rows["pad"]["device"] == "cpu"
    assert rows["a"]["cycles"] + rows["b"]["cycles"] == run.cycles
    assert run.cycles == sum(c.cycles or 0 for c in run.counters)


@pytest.mark.parametrize("reshaped", [True, False])
def test_an_image_is_flattened_where_it_lies(reshaped: bool) -> None:
    net = Draft("flatten", (1, 4, 4, 20))
    x = net.conv("a", "input", 20)
    graph = net.finish(net.dense("fc", net.reshape("flat", x, (1, 320)) if reshaped else x, 40))
    run = vdla.compile(graph).run(images_for(graph, 2), check=True)
    assert run.bit_exact, run.first_difference
    assert next(x for x in run.module.layers if x.op == "dense").device == "vdla"
    assert len(run.module.programs) == 1


def test_one_image_needs_no_image_axis(network: Network) -> None:
    images = images_for(residual(), 1)
    one = network.run(images[0], device="functional").outputs["softmax.out"]
    np.testing.assert_array_equal(one, expected(residual(), images))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (
            np.zeros((9, 7, 3), np.uint8),
            r"Input 'input' must be of dtype int8, not uint8: convert it by .*Subtract 128 from",
        ),
        (
            np.zeros((7, 9, 3), np.int8),
            r"must have the shape \(9, 7, 3\) or \(n, \.\.\.\), not \(7, 9, 3\): scale, cut or",
        ),
        (np.zeros((2, 9, 7, 1), np.int8), r"not \(2, 9, 7, 1\)"),
        (np.zeros((), np.int8), r"not \(\)"),
        (np.zeros((0, 9, 7, 3), np.int8), r"with n at least 1, not \(0, 9, 7, 3\): give an image"),
        ({"picture": np.zeros(3)}, r"Inputs of 'residual' must be input, not picture: give"),
        ({}, "must be input, not none"),
    ],
)
def test_a_wrong_input_is_refused(network: Network, images: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        network.run(images)


def test_other_wrong_arguments_are_refused(network: Network) -> None:
    images = images_for(residual(), 1)
    with pytest.raises(
        DeviceError, match="must be one of cycle, functional, rtl, pynq, cpu, cuda, opencl, not 'x'"
    ):
        network.run(images, device="x")
    with pytest.raises(InputError, match="max_images_at_once must be at least 1, not 0"):
        network.run(images, max_images_at_once=0)


def test_several_inputs_are_given_by_name() -> None:
    net = Draft("two", (1, 4, 4, 16))
    graph = net.finish(net.add("sum", net.conv("a", "input", 16), "input"))
    second = Graph("two", graph.tensors, graph.nodes[1:], ["a.out", "input"], graph.outputs)
    network = vdla.compile(second)
    a, b = images_for(graph, 2, seed=5), images_for(graph, 2, seed=6)
    run = network.run({"a.out": a, "input": b}, check=True)
    assert run.bit_exact
    with pytest.raises(InputError, match=r"must be a mapping by name, .*'two' reads a\.out, input"):
        network.run(a)
    with pytest.raises(InputError, match="the same number of images, not {'a.out': 2, 'input': 1}"):
        network.run({"a.out": a, "input": b[:1]})


def test_the_summary_is_plain_and_its_parts_fit_together(network: Network) -> None:
    run = network.run(images_for(residual(), 1), check=True)
    summary = json.loads(json.dumps(run.summary()))
    assert list(summary) == [
        *("cycles", "clock_mhz", "mac_cycles_ideal", "mac_utilization", "layers", "sim_seconds"),
        *("processor_seconds", "sim_cycles_per_second", "config", "config_hash", "bit_exact"),
    ]
    macs = 9 * 7 * 9 * (3 + 20) * 20 + 5 * 4 * 20 * 24 + 24 * 10  # stem, body, down, dense
    assert summary["mac_cycles_ideal"] == -(-macs // 256)
    assert summary["mac_utilization"] == macs / (256 * summary["cycles"])
    assert summary["bit_exact"] is True
    assert summary["config_hash"] == f"{PYNQ_Z1.hash:016x}"
    layers = {layer["name"]: layer for layer in summary["layers"]}
    assert [*layers] == [
        *("stem.unfold", "stem", "body", "sum", "down", "pool", "flat", "dense", "softmax")
    ]
    assert list(layers["body"]) == [
        *("name", "op", "device", "fused_into", "cycles", "mac_utilization", "dram_bytes"),
        *("dram_bytes_least", "waiting"),
    ]
    assert sum(layer["cycles"] or 0 for layer in layers.values()) == summary["cycles"]
    assert layers["softmax"]["cycles"] is None
    assert layers["flat"]["cycles"] == 0
    body = layers["body"]
    assert body["mac_utilization"] == pytest.approx(9 * 7 * 9 * 400 / 256 / body["cycles"])
    assert 0 < sum(body["waiting"].values()) < body["cycles"]
    assert body["dram_bytes"] >= 2 * 32 * 63 + 32 * 32 * 9


def test_without_time_the_summary_has_none(network: Network) -> None:
    summary = network.run(images_for(residual(), 1), device="functional").summary()
    assert summary["cycles"] is None
    assert summary["mac_utilization"] is None
    assert summary["sim_cycles_per_second"] is None
    assert "bit_exact" not in summary
    assert all(layer["cycles"] is None for layer in summary["layers"])


def test_a_core_of_several_images_counts_those_it_ran() -> None:
    graph, config = residual(), EVERY["4x16x16"]
    network = vdla.compile(graph, config=config)
    one, four, five = (network.run(images_for(graph, n)) for n in (1, 4, 5))
    assert one.cycles == four.cycles == five.cycles
    ideal = [run.summary()["mac_cycles_ideal"] for run in (one, four, five)]
    assert ideal[1] == ideal[2]
    assert ideal[1] == pytest.approx(4 * ideal[0], abs=4)
    assert (one.passes, four.passes, five.passes) == (1, 1, 2)


def test_layers_are_a_table(network: Network) -> None:
    table = network.run(images_for(residual(), 1)).layers
    assert list(table["name"])[:3] == ["stem.unfold", "stem", "body"]
    assert {"op", "device", "macs", "cycles", "mac_utilization", "dram_bytes"} <= set(table)
    assert table["cycles"].sum() == network.run(images_for(residual(), 1)).cycles
    assert any(column.startswith("wait_") for column in table)


def test_progress_counts_programs_and_operators(network: Network) -> None:
    seen: list[tuple[int, int, str]] = []
    network.run(images_for(residual(), 1), progress=lambda *step: seen.append(step))
    assert seen == [(0, 3, "stem.unfold"), (1, 3, "stem to dense"), (2, 3, "softmax")]


def test_a_saved_network_runs_and_checks_alike(network: Network, tmp_path: Path) -> None:
    images = images_for(residual(), 2)
    network.save(tmp_path / "net.vdla")
    loaded = vdla.load(tmp_path / "net.vdla")
    run, again = network.run(images, check=True), loaded.run(images, check=True)
    assert again.bit_exact
    assert again.cycles == run.cycles
    np.testing.assert_array_equal(again.outputs["softmax.out"], run.outputs["softmax.out"])
    assert loaded.input_shape == (1, 9, 7, 3)
    assert loaded.input_dtype == np.int8
    with pytest.raises(ModuleError, match="runs on its own configuration only"):
        vdla.load(tmp_path / "net.vdla", config=TINY)


def test_importing_the_runtime_loads_neither_compiler_nor_simulators() -> None:
    code = "import sys, vdla.runtime.api; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split())
    heavy = {"numba", "pandas", "tflite", "vdla.compiler", "vdla.sim.cycle", "vdla.sim.functional"}
    assert not loaded & heavy


def test_what_compile_refuses(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        vdla.compile(tmp_path / "nothing.tflite")
    with pytest.raises(ModelError, match="by name, pattern or operator; 'fc' means none"):
        vdla.compile(residual(), place={"fc": "cpu"})
    with pytest.raises(InputError, match="^vthreads must be .* at least 1, not 0: 2 hides latency"):
        vdla.compile(residual(), vthreads=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": "TINY"}, r"config must be a vdla\.Config, not 'TINY': give one, such as vdla"),
        ({"vthreads": 1.5}, r"vthreads must be a whole number of at least 1, not 1\.5: 2 hides"),
        ({"vthreads": True}, "vthreads must be a whole number of at least 1, not True"),
        ({"vthreads": "2"}, "vthreads must be a whole number of at least 1, not '2'"),
        ({"rank": "best"}, "rank must be one of estimate, cycle, not 'best': choose one"),
        ({"bind": {"N": 2.5}}, r"The size of dimension 'N' must be a whole .* 1, not 2\.5: bind"),
        ({"bind": {"N": "4"}}, "The size of dimension 'N' must be a whole .* 1, not '4': bind"),
        ({"bind": "N=4"}, "bind must be sizes by dimension, not 'N=4': give {'N': 4}"),
        ({"place": ["conv2d"]}, r"place must be devices by node, not \['conv2d'\]: give {'conv2d'"),
        (
            {"without": "fusion"},
            r"without must be names of passes, not 'fusion': give \['fusion'\]",
        ),
    ],
)
def test_arguments_of_another_kind_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        vdla.compile(residual(), **options)


def test_numpys_whole_numbers_are_taken() -> None:
    assert vdla.compile(residual(), vthreads=np.int64(2)).name == "residual"


def test_a_configuration_to_load_for_is_one(tmp_path: Path) -> None:
    vdla.compile(residual()).save(tmp_path / "net.vdla")
    with pytest.raises(InputError, match=r"config must be a vdla\.Config, not 'PYNQ_Z1'"):
        vdla.load(tmp_path / "net.vdla", config="PYNQ_Z1")
