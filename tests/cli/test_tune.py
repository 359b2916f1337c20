"""``vdla tune`` on a small network: records, what they gain, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

import vdla
from vdla.compiler.onnx import export_onnx
from vdla.compiler.zoo.builder import Builder
from vdla.runtime.tune.log import Log


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    from vdla.runtime.tune.run import Settings, tune

    file = tmp_path_factory.mktemp("tune") / "digits.jsonl"
    return file, tune("digits", file, Settings(trials=6, batch=3, together=2, workers=1))


def test_a_tuned_network_takes_no_more_cycles(tuned: tuple[Path, Any], vdla_command: Any) -> None:
    file, result = tuned
    assert result.after <= result.before
    assert {record.device for record in Log(file).read().records} == {"cycle"}
    shown = json.loads(vdla_command("simulate", "digits", "--records", file, "--json").out)
    assert shown["cycles"] == result.after == result.whole.cycles
    plain = json.loads(vdla_command("simulate", "digits", "--json").out)
    assert plain["cycles"] == result.before
    compiled = vdla.compile("digits", records=file)
    assert compiled.name == "digits"


def test_records_are_gone_on_with_only_if_asked_for(
    tuned: tuple[Path, Any], vdla_command: Any
) -> None:
    file, result = tuned
    lines = file.read_text().count("\n")
    refused = vdla_command("tune", "digits", "--records", file)
    assert refused.code == 2
    assert f"holds {lines} lines already: resume from them with --resume" in refused.err
    assert file.read_text().count("\n") == lines
    # A last record that was cut off is said, and nothing else is lost.
    with file.open("a") as end:
        end.write('{"chosen_in":"","co')
    again = vdla_command(
        "tune", "digits", "--records", file, "--resume", "--json", "--trials", 2, "--minutes", 0
    )
    assert again.code == 0
    shown = json.loads(again.out)
    assert (shown["known"], shown["trials"]) == (lines, 0)
    assert shown["after"] <= result.before
    assert "a line was not written to its end, and is left out" in again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device", "gpu"), "rtl, pynq, pynq@HOST, cpu, opencl or cuda, not 'gpu'"),
        (("--device", "cpu", "--place", "*=cpu"), "place must be left out on the device cpu"),
        (("--method", "luck"), "'luck' is not one of"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: tuple[str, ...], message: str, vdla_command: Any, tmp_path: Path
) -> None:
    refused = vdla_command("tune", "digits", "--records", tmp_path / "r.jsonl", *arguments)
    assert refused.code == 2
    assert message in " ".join(refused.err.split())
    assert not (tmp_path / "r.jsonl").exists()


def test_schedules_are_taken_from_a_file_that_is_there(vdla_command: Any, tmp_path: Path) -> None:
    refused = vdla_command("simulate", "digits", "--records", tmp_path / "none.jsonl")
    assert refused.code == 2
    assert "records must be a file that tuning wrote, and" in refused.err
    (tmp_path / "other.jsonl").write_text("cycles,5\n")
    refused = vdla_command("simulate", "digits", "--records", tmp_path / "other.jsonl")
    assert refused.code == 2
    assert "A record must be a line of JSON" in refused.err


def test_a_network_of_nothing_to_tune_is_refused(vdla_command: Any, tmp_path: Path) -> None:
    refused = vdla_command("tune", "digits", "--place", "*=cpu", "--records", tmp_path / "r.jsonl")
    assert refused.code == 2
    assert "A network must have convolutions on the accelerator to be tuned" in refused.err


def test_the_processor_is_tuned_by_the_clock(vdla_command: Any, tmp_path: Path) -> None:
    file = tmp_path / "cpu.jsonl"
    shown = vdla_command(
        *("tune", "digits", "--device", "cpu", "--trials", 2, "--batch", 2, "--workers", 1),
        *("--records", file, "--json"),
    )
    assert shown.code == 0
    result = json.loads(shown.out)
    assert result["gain"] == pytest.approx(result["before"] / result["after"])
    assert {record.unit for record in Log(file).read().records} == {"seconds"}
    ran = vdla_command("run", "digits", "--target", "cpu", "--records", file, "--check")
    assert ran.code == 0


def test_a_gpu_is_tuned_by_the_clock(vdla_command: Any, tmp_path: Path, pocl: Any) -> None:
    net = Builder("small", (1, 5, 4, 3))
    graph = net.finish(net.dense("classes", net.mean("mean", "input"), 7))
    model, file = tmp_path / "small.onnx", tmp_path / "gpu.jsonl"
    onnx.save(export_onnx(graph), model)
    tuning = ("tune", model, "--records", file, "--trials", 2, "--batch", 2, "--json")
    refused = vdla_command(*tuning, "--device", "opencl:abacus")
    assert refused.code != 0
    assert "An OpenCL device must be one of " in refused.err
    assert "none is called 'abacus'" in " ".join(refused.err.split())
    result = json.loads(vdla_command(*tuning, "--device", "opencl:portable").out)
    assert result["gain"] == pytest.approx(result["before"] / result["after"])
    assert [task["operators"] for task in result["tasks"]] == [["dense_1"]]
    records = Log(file).read().records
    assert {(one.device, one.task.target["device"]) for one in records} == {("opencl", pocl.name)}
    ran = vdla_command(
        *("run", model, "--target", "opencl", "--device", "portable", "--records", file, "--json")
    )
    assert json.loads(ran.out)["device"] == pocl.name
    elsewhere = vdla_command(
        "run", model, "--target", "opencl", "--device", "abacus", "--records", file
    )
    assert "none is called 'abacus'" in " ".join(elsewhere.err.split())
