"""``--trace``: what is refused at once, and what a run writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import vdla.runtime
from tests.networks import residual
from vdla.config import TINY
from vdla.runtime.api import compile

REFUSED = {
    "--trace a.vcd --device functional": (
        "--trace needs --device cycle: functional has no events to write"
    ),
    "--trace a.fst": "A trace must end in .json, .json.gz, .vcd, not be a.fst",
    "--trace a.json --window 7:7": "with 0 <= START < STOP, in cycles, not 7:7.",
}


@pytest.mark.parametrize("command", ["simulate", "run"])
@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_be_is_refused_at_once(
    vdla_command: Any,
    command: str,
    options: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vdla.runtime, "api", None, raising=False)
    monkeypatch.chdir(tmp_path)
    outcome = vdla_command(command, "a.tflite", *options.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert REFUSED[options] in " ".join(outcome.err.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_a_run_writes_its_trace(vdla_command: Any, tmp_path: Path) -> None:
    compile(residual(), config=TINY).save(tmp_path / "a.vdla")
    path = tmp_path / "a.json"
    arguments = ["run", tmp_path / "a.vdla", "--trace", path]
    outcome = vdla_command(*arguments, "--window", "100:400", "--json")
    assert outcome.code == 0, outcome.err
    assert f"{path}: " in outcome.err
    trace = json.loads(path.read_text())
    assert trace["otherData"]["cycles"] == json.loads(outcome.out)["cycles"]
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {100, 400} == {min(e["ts"] for e in slices), max(e["ts"] + e["dur"] for e in slices)}

    outcome = vdla_command(*arguments, "--window", "9000000:9000001")
    assert f"{path} holds no cycle: the run took" in outcome.err
