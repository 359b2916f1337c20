"""The commands around the runtime, on a runtime that only remembers what it was asked."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vdla.runtime
from vdla.config import PYNQ_Z1, TINY
from vdla.errors import InputError

SUMMARY: dict[str, Any] = {
    "cycles": 1_234_567,
    "clock_mhz": 100.0,
    "mac_cycles_ideal": 1_111_111,
    "mac_utilization": 0.9,
    "layers": [
        {
            "name": "conv1",
            "op": "conv2d",
            "device": "vdla",
            "fused_into": None,
            "cycles": 1_200_000,
            "mac_utilization": 0.925,
            "dram_bytes": 4096,
            "waiting": {"memory": 12, "tokens": 3456},
        },
        {
            "name": "softmax",
            "op": "softmax",
            "device": "cpu",
            "fused_into": None,
            "cycles": None,
            "mac_utilization": None,
            "dram_bytes": None,
            "waiting": None,
        },
    ],
    "sim_seconds": 0.25,
    "sim_cycles_per_second": 4_938_268.0,
    "config": "pynq-z1",
    "config_hash": "0123456789abcdef",
}


class FakeRuntime:
    """Stands where ``vdla.runtime.api`` stands; every call is kept in ``calls``."""

    def __init__(self) -> None:
        self.calls: dict[str, Any] = {}
        self.programs = ("a program",)
        self.bit_exact: bool | None = None
        self.first_difference: str | None = None
        self.labels: tuple[str, ...] = ()
        self.cpu_level: str | None = None
        self.gpu_target: str | None = None
        self.input_shape = (1, 2, 2, 3)
        self.input_dtype = np.dtype(np.int8)
        self.inputs = {"x": SimpleNamespace(shape=self.input_shape, dtype=self.input_dtype)}
        self.scores = np.array([[3, 9, -4, 9, 0, 1]], np.int8)

    def compile(self, model: str, *, progress: Callable[..., None], **options: Any) -> Any:
        progress(1, 1, "conv1")
        self.calls["compile"] = {"model": model, **options}
        return self

    def load(self, path: Path, config: Any = None) -> Any:
        self.calls["load"] = {"path": path, "config": config}
        return self

    def save(self, path: Path) -> None:
        path.write_bytes(b"12345")

    def run(self, inputs: Any, *, progress: Callable[..., None], **options: Any) -> Any:
        self.calls["run"] = {"inputs": inputs, **options}
        summary = copy.deepcopy(SUMMARY)
        if options["check"]:
            summary["bit_exact"] = self.bit_exact
        return SimpleNamespace(
            outputs={"scores": self.scores},
            bit_exact=self.bit_exact,
            first_difference=self.first_difference,
            summary=lambda: summary,
        )


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    fake = FakeRuntime()
    monkeypatch.setattr(vdla.runtime, "api", fake, raising=False)
    return fake


def test_simulate_hands_its_options_on(vdla_command: Any, runtime: FakeRuntime) -> None:
    outcome = vdla_command(
        "simulate",
        "a.tflite",
        "--config",
        "tiny",
        "--device",
        "functional",
        "--vthreads",
        "1",
        "--no-cache",
        *("--place", "conv2d=cpu", "--place", "l*=vdla"),
    )
    assert outcome.code == 0
    assert runtime.calls["compile"] == {
        "model": "a.tflite",
        "config": TINY,
        "bind": {},
        "place": {"conv2d": "cpu", "l*": "vdla"},
        "vthreads": 1,
        "rank": "estimate",
        "records": None,
        "cache": False,
        "gpu": None,
    }
    assert runtime.calls["run"]["device"] == "functional"
    assert runtime.calls["run"]["check"] is False


def test_simulate_without_options_takes_the_board_two_threads_and_the_cycle_model(
    vdla_command: Any, runtime: FakeRuntime
) -> None:
    vdla_command("simulate", "resnet18")
    assert runtime.calls["compile"] == {
        "model": "resnet18",
        "config": PYNQ_Z1,
        "bind": {},
        "place": {},
        "vthreads": 2,
        "rank": "estimate",
        "records": None,
        "cache": True,
        "gpu": None,
    }
    assert runtime.calls["run"]["device"] == "cycle"


def test_the_table_shows_each_layer_and_what_it_waited_for(
    vdla_command: Any, runtime: FakeRuntime
) -> None:
    lines = vdla_command("simulate", "resnet18").out.splitlines()
    assert lines[0].split("  ")[0] == "layer"
    assert lines[0].endswith("wait memory  wait tokens")
    first = "conv1 conv2d vdla 1,200,000 92.5 % 4,096 12 3,456"
    assert " ".join(lines[1].split()) == first
    assert " ".join(lines[2].split()) == "softmax softmax cpu - - - - -"
    assert lines[4] == (
        "1,234,567 cycles on pynq-z1, 12.35 ms at 100 MHz; "
        "1,111,111 would do at full MAC utilization (90.0 %)"
    )
    assert lines[5] == "simulated in 0.25 s, 4.9 million cycles a second"
    assert lines[6] == "classes (score): 1 (9), 3 (9), 0 (3), 5 (1), 4 (0)"


def test_json_is_the_summary_and_the_classes(vdla_command: Any, runtime: FakeRuntime) -> None:
    report = json.loads(vdla_command("simulate", "resnet18", "--json").out)
    classes = report.pop("classes")
    assert report == SUMMARY
    assert classes[0][:2] == [{"class": 1, "score": 9}, {"class": 3, "score": 9}]


def test_a_network_that_differs_leaves_with_1_and_says_where(
    vdla_command: Any, runtime: FakeRuntime
) -> None:
    runtime.bit_exact, runtime.first_difference = False, "conv1 at (0, 1, 1, 2): 5, not 4"
    outcome = vdla_command("simulate", "resnet18", "--check")
    assert outcome.code == 1
    assert "NOT equal to the integer interpreter" in outcome.out
    assert "first difference: conv1 at (0, 1, 1, 2): 5, not 4" in outcome.out


def test_a_network_that_agrees_says_so(vdla_command: Any, runtime: FakeRuntime) -> None:
    runtime.bit_exact = True
    outcome = vdla_command("simulate", "resnet18", "--check")
    assert outcome.code == 0
    assert "every layer equals the integer interpreter" in outcome.out


def test_without_input_noise_is_used_and_said(vdla_command: Any, runtime: FakeRuntime) -> None:
    outcome = vdla_command("simulate", "resnet18", "--json")
    assert outcome.err == "neither --image nor --input: running on random noise (seed 0)\n"
    assert runtime.calls["run"]["inputs"].shape == (1, 2, 2, 3)


def test_an_array_goes_in_as_it_is(vdla_command: Any, runtime: FakeRuntime, tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.int8).reshape(2, 2, 2, 3)
    np.save(tmp_path / "a.npy", images)
    vdla_command("simulate", "resnet18", "--input", str(tmp_path / "a.npy"))
    assert np.array_equal(runtime.calls["run"]["inputs"], images)


def test_run_takes_a_compiled_file(vdla_command: Any, runtime: FakeRuntime) -> None:
    outcome = vdla_command("run", "a.vdla", "--config", "tiny", "--device", "functional")
    assert outcome.code == 0
    assert runtime.calls["load"] == {"path": "a.vdla", "config": TINY}
    vdla_command("run", "a.vdla")
    assert runtime.calls["load"]["config"] is None


def test_compile_says_what_it_wrote(
    vdla_command: Any, runtime: FakeRuntime, tmp_path: Path
) -> None:
    path = tmp_path / "out.vdla"
    outcome = vdla_command("compile", "a.tflite", "-o", str(path))
    assert outcome.out.startswith(f"{path}: 5 bytes for pynq-z1, in ")
    report = json.loads(vdla_command("compile", "a.tflite", "-o", str(path), "--json").out)
    assert report["bytes"] == 5
    assert report["config_hash"] == f"{PYNQ_Z1.hash:016x}"
    assert report["cpu"] is None
    assert (runtime.calls["compile"]["target"], runtime.calls["compile"]["cpu"]) == ("vdla", None)


def test_compile_names_the_processor(
    vdla_command: Any, runtime: FakeRuntime, tmp_path: Path
) -> None:
    arguments = ("compile", "a.onnx", "-o", str(tmp_path / "out.vdla"), "--cpu", "armv7-neon")
    runtime.cpu_level = "armv7-neon"
    assert " bytes for pynq-z1 and armv7-neon, in " in vdla_command(*arguments).out
    assert runtime.calls["compile"]["cpu"] == "armv7-neon"
    runtime.programs = ()
    assert " bytes for armv7-neon, in " in vdla_command(*arguments, "--target", "cpu").out
    assert runtime.calls["compile"]["target"] == "cpu"
    assert json.loads(vdla_command(*arguments, "--json").out)["cpu"] == "armv7-neon"


def test_run_compiles_a_model_for_the_processor(vdla_command: Any, runtime: FakeRuntime) -> None:
    runtime.programs = ()
    outcome = vdla_command("run", "a.onnx", "--target", "cpu", "--threads", "3", "--pin")
    assert outcome.code == 0
    assert "nothing of this network" not in outcome.err
    compiled = runtime.calls["compile"]
    assert (compiled["model"], compiled["target"], compiled["cpu"]) == ("a.onnx", "cpu", None)
    run = runtime.calls["run"]
    assert (run["device"], run["threads"], run["pin"]) == ("cpu", 3, True)
    vdla_command("run", "a.onnx", "--cpu", "host")
    assert (runtime.calls["compile"]["target"], runtime.calls["compile"]["cpu"]) == ("vdla", "host")
    vdla_command("run", "a.vdla", "--target", "cpu")
    assert runtime.calls["load"]["path"] == "a.vdla"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("a.vdla", "--cpu", "host"),
            "--winograd and --matrices are for a network that is compiled here",
        ),
        (
            ("a.vdla", "--bind", "n=1"),
            "--winograd and --matrices are for a network that is compiled here",
        ),
        (("a.onnx", "--target", "cpu", "--device", "pynq@b"), "takes a compiled file: vdla comp"),
        (("a.onnx", "--target", "gpu"), "'gpu' is not one of 'vdla', 'cpu'"),
    ],
)
def test_options_of_the_processor_that_do_not_go_together(
    vdla_command: Any, runtime: FakeRuntime, arguments: tuple[str, ...], message: str
) -> None:
    outcome = vdla_command("run", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_an_error_of_the_runtime_is_one_line(
    vdla_command: Any, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise InputError("an input must be so, not otherwise")

    monkeypatch.setattr(runtime, "run", refuse)
    outcome = vdla_command("run", "a.vdla", "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith("\nvdla: an input must be so, not otherwise\n")


def test_bench_sim_counts_cycles_over_cpu_time(
    vdla_command: Any, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(np.cumsum([0, 5, 1, 9, 1, 40, 1, 0.5, 1, 2, 1, 0.25, 1, 3]).tolist())
    monkeypatch.setattr("vdla.runtime.cli.bench._cpu_seconds", lambda: next(ticks))
    monkeypatch.setattr(
        runtime,
        "run",
        lambda inputs, device: SimpleNamespace(cycles=1000 if device == "cycle" else None),
    )
    report = json.loads(vdla_command("bench", "sim", "--repeats", "2", "--json").out)
    assert report["compile_cpu_seconds"] == 5
    assert report["cpu_seconds"] == {"cycle": [0.5, 0.25], "functional": [2, 3]}
    assert report["sim_cycles_per_second"] == pytest.approx(1000 / 0.375)
    assert report["functional_over_cycle"] == pytest.approx(2.5 / 0.375)


def test_a_narrow_terminal_gets_the_waiting_in_a_table_below(
    vdla_command: Any, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vdla.runtime.cli.output.PIPE_WIDTH", 70)
    lines = vdla_command("simulate", "resnet18").out.splitlines()
    assert lines[0].split() == ["layer", "operator", "on", "cycles", "MAC", "use", "bytes", "moved"]
    assert lines[4].split() == ["waiting", "for", "memory", "tokens"]
    assert lines[5].split() == ["conv1", "12", "3,456"]
    assert lines[6].split() == ["softmax", "-", "-"]


@pytest.mark.parametrize("wish", ["conv2d", "=cpu", "conv2d="])
def test_a_placement_without_nodes_or_device_is_refused(
    vdla_command: Any, runtime: FakeRuntime, wish: str
) -> None:
    outcome = vdla_command("simulate", "resnet18", "--place", wish)
    assert outcome.code != 0
    assert f"--place must be nodes and a device, such as conv2d=cpu, not '{wish}'" in outcome.err
