"""Tasks of a network are searched in order of what they may gain, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.tune.fakes import Bowl, Here, cost_of
from vdla.compiler.tune.features import NAMES
from vdla.compiler.tune.task import Record
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.tuning import METHODS, Job, known_of, search_jobs

START = {"x": 0, "y": 0}


def jobs() -> list[Job]:
    few, many = Bowl(3), Bowl(7)
    return [
        Job(few, ["a"], START, cost_of(few, START)),
        Job(many, ["b", "c", "d"], START, cost_of(many, START)),
    ]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_what_is_better(method: str, tmp_path: Path) -> None:
    done = search_jobs(jobs(), Here(), Log(tmp_path / "r.jsonl"), method=method, trials=144)
    for job in done.jobs:
        assert job.search is not None
        assert job.best == 100
        assert job.search.proven
        assert job.start == cost_of(job.template, START)
        assert job.gain == len(job.nodes) * (job.start - 100)


def test_the_compilers_own_schedule_comes_first_of_the_task_that_costs_most(
    tmp_path: Path,
) -> None:
    runner, log = Here(), Log(tmp_path / "r.jsonl")
    done = search_jobs(jobs(), runner, log, trials=16, batch=4)
    assert runner.asked[0] == START
    first = [record.task.shape["least"] for record in log.read().records[:8]]
    assert first == [7, 7, 7, 7, 3, 3, 3, 3]
    assert [job.trials for job in done.jobs] == [16, 16]
    assert len({(r.task.key, *r.point.values()) for r in log.read().records}) == 32


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    log = Log(tmp_path / "r.jsonl")
    search_jobs(jobs(), Here(), log, trials=8)
    before = log.read().records
    runner = Here()
    done = search_jobs(jobs(), runner, log, trials=8, seed=1)
    asked = {(r.task.key, *r.point.values()) for r in log.read().records[len(before) :]}
    assert asked.isdisjoint((r.task.key, *r.point.values()) for r in before)
    assert START not in runner.asked
    assert all(job.start == cost_of(job.template, START) for job in done.jobs)


def test_an_interrupted_run_keeps_what_it_measured(tmp_path: Path) -> None:
    log = Log(tmp_path / "r.jsonl")
    done = search_jobs(jobs(), Here(stop_after=13), log, trials=64)
    assert done.interrupted
    assert len(log.read().records) == 13
    assert done.trials == 13
    assert all(job.start < float("inf") for job in done.jobs if job.search is not None)


def test_which_candidate_is_done_first_has_no_part_in_the_search(tmp_path: Path) -> None:
    found = []
    for backwards in (False, True):
        log = Log(tmp_path / f"{backwards}.jsonl")
        search_jobs(jobs(), Here(backwards=backwards), log, trials=40)
        search_jobs(jobs(), Here(backwards=backwards), log, trials=16)
        found.append(sorted(record.to_json() for record in log.read().records))
    assert found[0] == found[1]


def test_no_batch_begins_after_the_deadline(tmp_path: Path) -> None:
    done = search_jobs(jobs(), Here(), Log(tmp_path / "r.jsonl"), deadline=0.0)
    assert done.trials == 0
    assert not done.interrupted


def test_a_model_learns_from_records_of_other_tasks_alone() -> None:
    mine, other = Bowl(3), Bowl(7)
    good = tuple(map(float, range(len(NAMES))))
    records = [
        Record(other.task, {"x": 1, "y": 1}, 5.0, "cycles", features=good),
        Record(other.task, {"x": 1, "y": 2}, None, "cycles", "crash", features=good),
        Record(other.task, {"x": 1, "y": 3}, 5.0, "seconds", features=good),
        Record(other.task, {"x": 1, "y": 4}, 5.0, "cycles", features=good[:-1]),
        Record(mine.task, {"x": 1, "y": 5}, 5.0, "cycles", features=good),
        Record(Bowl(9).task, {"x": 1, "y": 6}, 6.0, "cycles", features=good),
    ]
    known = known_of(records, mine)
    assert known is not None
    assert known.costs.tolist() == [5.0, 6.0]
    assert known.groups.tolist() == [0, 1]
    assert known_of(records[4:5], mine) is None


def test_what_follows_the_search_is_none_of_its_seconds(tmp_path: Path) -> None:
    state = search_jobs([], Here(), Log(tmp_path / "records.jsonl"))
    assert state.ended is not None
    state.begun = state.ended - 2.0
    assert state.seconds == 2.0
