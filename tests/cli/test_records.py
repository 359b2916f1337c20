"""``vdla records`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.runtime.tune.test_log import record
from tests.runtime.tune.test_records import FOREIGN, OTHER, written


@pytest.fixture
def some(tmp_path: Path) -> Path:
    log = written(
        tmp_path / "some.jsonl",
        record(50),
        record(None, status="crash"),
        record(30),
        record(90, task=OTHER),
        more=FOREIGN + "\n" + record(8).to_json()[:-9],
    )
    return log.path


SAID = [
    "some.jsonl: a line was not written to its end, and is left out",
    "some.jsonl: 1 line of another schema or with another key than the task's: not used; they "
    "are of another version of vdla, or were edited",
]


def test_tables_are_shown(vdla_command: Invoke, some: Path) -> None:
    shown = vdla_command("records", "best", some)
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0] == ["task", "target", "schedule", "best", "trials"]
    row = "vdla (config 0f) axis=out outside=True rows=7 30 cycles 3"
    assert " ".join(lines[2][5:]) == row
    assert [line.rpartition("/")[2] for line in shown.err.splitlines()] == SAID
    counted = vdla_command("records", "stats", some).out.splitlines()[2].split()
    row = "vdla (config 0f) 0.1.0 1 3 2 1 crash 30 cycles"
    assert " ".join(counted[5:]) == row
    found = json.loads(vdla_command("records", "stats", some, "--json").out)
    assert found["files"] == {str(some): {"records": 4, "foreign": 1, "cut": True}}
    assert [task["best"] for task in found["tasks"]] == [90, 30]
    found = json.loads(vdla_command("records", "best", some, "--json").out)
    assert [task["cost"] for task in found["tasks"]] == [90, 30]


def test_files_are_changed(vdla_command: Invoke, some: Path, tmp_path: Path) -> None:
    into = tmp_path / "into.jsonl"
    shown = vdla_command("records", "merge", some, some, "-o", into)
    assert shown.out == f"{into}: 4 records, 4 of them new; 4 were there twice\n"
    shown = vdla_command("records", "prune", into, "--keep", "1", "--no-failures")
    assert shown.out == f"{into}: 2 records kept, 2 dropped\n"
    found = json.loads(vdla_command("records", "prune", into, "--newest", "--json").out)
    assert found == {"files": {str(into): {"kept": 2, "dropped": 0, "foreign": 0}}}
    found = json.loads(vdla_command("records", "merge", some, "-o", into, "--json").out)
    assert (found["records"], found["added"]) == (4, 2)
    refused = vdla_command("records", "best", tmp_path / "none")
    assert refused.code == 2
    assert refused.err.startswith("vdla: Records must be in a file, and ")
