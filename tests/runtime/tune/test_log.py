"""Records are kept whole, whatever happens to the file and to those who write it."""

from __future__ import annotations

import json
import multiprocessing
import re
from dataclasses import replace
from pathlib import Path

import pytest

from vdla.compiler.tune.database import Database
from vdla.compiler.tune.task import Record, Task, read_record
from vdla.errors import InputError
from vdla.runtime.tune.log import Log

TASK = Task("conv2d", 1, {"height": 7, "kernel": [3, 3]}, {"kind": "vdla", "config": "0f"})


def record(cost: float | None, **changes: object) -> Record:
    one = Record(TASK, {"rows": 7, "axis": "out", "outside": True}, cost, "cycles", tool="0.1.0")
    return replace(one, **changes)  # type: ignore[arg-type]


def test_what_is_written_is_read() -> None:
    one = record(12.5, features=(1.5, 0.0))
    assert read_record(one.to_json()) == one
    failed = record(None, status="crash", reason="ended by SIGSEGV")
    assert read_record(failed.to_json()) == failed
    assert TASK.key != replace(TASK, template=2).key
    assert TASK.key != replace(TASK, shape={"height": 8, "kernel": [3, 3]}).key
    assert TASK.name == "conv2d (height 7, kernel 3x3)"


def test_other_schemas_and_forged_keys_are_not_used() -> None:
    line = record(3.0).to_json()
    assert read_record(line.replace('"schema":1', '"schema":2')) is None
    assert read_record(line.replace('"height":7', '"height":8')) is None


def test_the_cheapest_is_the_best(tmp_path: Path) -> None:
    log = Log(tmp_path / "some" / "records.jsonl")
    assert log.read().records == []
    log.append([record(5), record(None, status="time-out"), record(3), record(4)])
    assert list(Database(log.read().records)) == [record(3)]


def test_a_line_that_was_cut_off_is_survived(tmp_path: Path) -> None:
    log = Log(tmp_path / "records.jsonl")
    log.append([record(5), record(3)])
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-20])
    read = log.read()
    assert (read.records, read.cut) == ([record(5)], True)
    log.append([record(4)])  # on a line of its own
    read = log.read()
    assert (read.records, read.cut) == ([record(5), record(4)], True)


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    log = Log(tmp_path / "records.jsonl")
    log.append([record(5)])
    with log.path.open("a") as file:
        file.write("cycles,5\n")
    with pytest.raises(InputError, match=r"records\.jsonl, line 2: A record must be a line of"):
        log.read()
    with pytest.raises(InputError, match="and it cannot be: Is a directory"):
        Log(tmp_path).append([record(5)])


def _write(path: Path, cost: int) -> None:
    for k in range(50):
        Log(path).append([record(1000 * cost + k)])


def test_several_processes_append(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    context = multiprocessing.get_context("forkserver")
    running = [context.Process(target=_write, args=(path, k)) for k in range(3)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    costs = sorted(one.cost for one in Log(path).read().records)
    assert costs == sorted(1000 * k + n for k in range(3) for n in range(50))


def test_a_file_that_is_cut_anywhere_loses_its_last_line_alone(tmp_path: Path) -> None:
    log = Log(tmp_path / "records.jsonl")
    log.append([record(5), record(3, reason='"}]} \\ \u00e9')])
    whole = log.path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole) - 1):
        log.path.write_bytes(whole[:end])
        read = log.read()
        assert read.records == [record(5)]
        assert (read.cut, read.foreign) == (end > first, 0)
        log.path.write_bytes(whole[:end] + b"\0" * 7)  # as a file system may leave it
        assert log.read().records == [record(5)]
    log.path.write_bytes(whole[:-1])
    assert len(log.read().records) == 2
    log.append([record(4)])
    assert [one.cost for one in log.read().records] == [5, 3, 4]


def test_a_full_disk_is_said() -> None:
    with pytest.raises(InputError, match="and it cannot be: No space left on device"):
        Log(Path("/dev/full")).append([record(5)])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("cost", "NaN", "cost must be a number of at least 0 or null, not nan"),
        ("cost", "1e400", "cost must be a number of at least 0 or null, not inf"),
        ("cost", "-5", "cost must be a number of at least 0 or null, not -5"),
        ("cost", '"5"', "cost must be a number of at least 0 or null, not '5'"),
        ("cost", "null", "must have a cost if it is ok, and only then"),
        ("point", '"abc"', "point must be an object of integers, texts and booleans"),
        ("point", '{"rows":[1]}', "point must be an object of integers, texts and booleans"),
        ("status", "[]", "status must be ok, does not fit"),
        ("features", "[NaN]", "features must be a list of numbers"),
        ("tool", "null", "tool must be a text, not None"),
        ("chosen_in", "3", "chosen_in must be a text, not 3"),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name(
    field: str, value: str, message: str, tmp_path: Path
) -> None:
    fine = json.loads(record(3).to_json())
    del fine[field]
    text = json.dumps(fine)[:-1] + f', "{field}": {value}}}'
    (tmp_path / "r.jsonl").write_text(f"{record(2).to_json()}\n{text}\n")
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        Log(tmp_path / "r.jsonl").read()
    assert "r.jsonl, line 2: " in str(refused.value)
