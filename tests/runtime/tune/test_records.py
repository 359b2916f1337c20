"""Files of records are merged, pruned and looked into, and nothing is lost that should stay."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.tune.test_log import TASK, record
from vdla.compiler.tune.task import Record
from vdla.errors import InputError
from vdla.runtime.tune import records
from vdla.runtime.tune.log import Log, Read

OTHER = replace(TASK, shape={"height": 14, "kernel": [3, 3]})
OLD = replace(TASK, template=0)
FOREIGN = record(2.0).to_json().replace('"schema":1', '"schema":2')


def written(path: Path, *some: Record, more: str = "") -> Log:
    log = Log(path)
    log.append(some)
    with path.open("a") as file:
        file.write(more)
    return log


def test_files_become_one_with_each_record_once(tmp_path: Path) -> None:
    one = written(tmp_path / "one", record(5), record(3), record(5))
    two = written(tmp_path / "two", record(3), record(4, task=OTHER), more=FOREIGN + "\n")
    cut = written(tmp_path / "cut", record(7), more=record(8).to_json()[:-9])
    into = written(tmp_path / "into", record(5))
    assert records.merge([one, two, cut], into) == {
        "records": 4,
        "added": 3,
        "duplicates": 3,
        "foreign": 1,
        "cut": [str(cut.path)],
    }
    assert into.read().records == [record(5), record(3), record(4, task=OTHER), record(7)]
    assert records.merge([one, into], one)["records"] == 4
    assert one.read().records == [record(5), record(3), record(4, task=OTHER), record(7)]


def test_the_best_stay_and_what_nobody_asked_to_drop(tmp_path: Path) -> None:
    failed = record(None, status="time-out")
    some = [record(5), failed, record(3), record(9, task=OTHER), record(4), record(1, task=OLD)]
    log = written(tmp_path / "some", *some, more=FOREIGN + "\n")
    assert records.prune(log) == {"kept": 6, "dropped": 0, "foreign": 1}
    assert records.prune(log, 2) == {"kept": 5, "dropped": 1, "foreign": 1}
    assert log.read().records == some[1:]
    assert records.prune(log, failures=False, versions=False)["kept"] == 3
    read = log.read()
    assert read.records == [record(3), record(9, task=OTHER), record(4)]
    assert read.others == [FOREIGN]
    log.append([record(8, chosen_in="resnet18"), record(7)])
    assert records.prune(log, 1)["kept"] == 3
    assert [one.cost for one in log.read().records] == [3, 9, 8]
    with pytest.raises(InputError, match="At least 1 record of a task must be kept, not 0"):
        records.prune(log, 0)
    with pytest.raises(InputError, match="and .*none is none: name one"):
        records.prune(Log(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_tasks_are_counted(tmp_path: Path) -> None:
    failed = [record(None, status=status) for status in ("crash", "crash", "time-out")]
    one = written(tmp_path / "one", record(5), *failed[1:], record(3, tool="0.2.0"))
    two = written(tmp_path / "two", record(5), record(9, task=OTHER))
    first, second = records.stats([one, two])
    assert second == {
        "task": "conv2d (height 7, kernel 3x3)",
        "target": {"kind": "vdla", "config": "0f"},
        "template": 1,
        "key": TASK.key,
        "trials": 4,
        "ok": 2,
        "failures": {"crash": 1, "time-out": 1},
        "best": 3,
        "unit": "cycles",
        "tools": ["0.1.0", "0.2.0"],
    }
    assert (first["task"], first["best"]) == ("conv2d (height 14, kernel 3x3)", 9)
    found = records.best([one, two])
    assert [(row["key"], row["cost"], row["trials"]) for row in found] == [
        (OTHER.key, 9, 1),
        (TASK.key, 3, 4),
    ]
    assert found[1]["point"] == {"rows": 7, "axis": "out", "outside": True}
    only = written(tmp_path / "only", *failed)
    assert records.best([only]) == []
    assert records.stats([only])[0]["best"] is None


def test_a_change_that_fails_leaves_the_file(tmp_path: Path) -> None:
    log = written(tmp_path / "some", record(5))
    log.path.chmod(0o640)
    before = log.path.read_bytes()

    def fails(held: Read) -> list[Record]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        log.rewrite(fails)
    assert log.path.read_bytes() == before
    link = tmp_path / "link"
    link.symlink_to(log.path)
    Log(link).rewrite(lambda held: [*held.records, record(4)])
    assert link.is_symlink()
    assert log.read().records == [record(5), record(4)]
    assert log.path.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "some"]


def _append(path: Path, count: int) -> None:
    for k in range(count):
        Log(path).append([record(k)])


def test_nothing_that_is_appended_while_a_file_is_written_anew_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    context = multiprocessing.get_context("forkserver")
    appending = context.Process(target=_append, args=(path, 60))
    appending.start()
    times = 0
    while appending.is_alive():
        Log(path).rewrite(lambda held: reversed(held.records))
        times += 1
    appending.join()
    assert times > 2
    assert sorted(one.cost or 0 for one in Log(path).read().records) == [*range(60)]
