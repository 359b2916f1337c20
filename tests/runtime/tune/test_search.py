"""A search keeps what it measures, whatever becomes of its candidates, and says why it stops."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler.tune.database import Database
from vdla.compiler.tune.methods import Grid, Random
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import OK, Task
from vdla.errors import DeviceError, LoweringError, ProgramError
from vdla.runtime.tune.attempts import Attempts
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.search import Found, search


@dataclass(frozen=True)
class Squares:
    """A template whose point k costs (k - 7) ** 2."""

    unit = "cycles"

    @property
    def task(self) -> Task:
        return Task("squares", 1, {"least": 7}, {"kind": "test"})

    @property
    def space(self) -> Space:
        return Space({"k": k} for k in range(20))

    def floor(self, point: Point) -> float:
        return -1.0


def square(template: Any, point: Point, to_beat: float = 0.0) -> float:
    return float((int(point["k"]) - 7) ** 2)


def fragile(template: Any, point: Point, to_beat: float) -> float:
    """Fail in every way that a candidate can."""
    k = int(point["k"])
    if k == 1:
        raise LoweringError("no instruction for it")
    if k == 2:
        raise ProgramError("sums differ")
    if k == 3:
        os.abort()
    if k == 4:
        time.sleep(60)
    if k == 5:
        raise ZeroDivisionError("division by zero")
    return square(template, point)


def dead(template: Any, point: Point, to_beat: float) -> float:
    raise LoweringError("the compiler is gone")


@pytest.fixture
def attempts(request: pytest.FixtureRequest) -> Any:
    with Attempts(request.param, workers=2, seconds=1.0) as some:
        yield some


@pytest.mark.parametrize("attempts", [square], indirect=True)
def test_the_best_is_found_and_everything_kept(attempts: Attempts, tmp_path: Path) -> None:
    log, seen = Log(tmp_path / "records.jsonl"), []
    method = Random(Squares().space, np.random.default_rng(0))
    found = search(
        Squares(), method, attempts, log, trials=100, told=lambda now: seen.append(len(now.records))
    )
    assert found.best is not None
    assert (found.best.point, found.best.cost) == ({"k": 7}, 0.0)
    assert seen == [*range(1, 21)]
    kept = log.read()
    assert kept.records == found.records
    assert list(Database(kept.records)) == [found.best]


@pytest.mark.parametrize("attempts", [fragile], indirect=True)
def test_each_failure_is_called_what_it_is(attempts: Attempts) -> None:
    found = search(Squares(), Grid(Squares().space, np.random.default_rng(0)), attempts, trials=7)
    said = {int(r.point["k"]): (r.status, r.reason) for r in found.records if r.status != OK}
    assert said == {
        1: ("does not lower", "no instruction for it"),
        2: ("wrong result", "sums differ"),
        3: ("crash", "ended by SIGABRT"),
        4: ("time-out", "took over 1 s"),
        5: ("crash", "ZeroDivisionError: division by zero"),
    }
    assert found.failures == {
        "does not lower": 1,
        "wrong result": 1,
        "crash": 2,
        "time-out": 1,
    }
    assert found.best is not None
    assert found.best.point == {"k": 6}


@pytest.mark.parametrize("attempts", [dead], indirect=True)
def test_a_batch_that_fails_whole_ends_the_search(attempts: Attempts, tmp_path: Path) -> None:
    log = Log(tmp_path / "records.jsonl")
    with pytest.raises(
        DeviceError, match="all 8 of a batch for squares .* does not lower: the compiler is gone"
    ):
        search(Squares(), Grid(Squares().space, np.random.default_rng(0)), attempts, log, trials=20)
    assert len(log.read().records) == 8


@pytest.mark.parametrize("attempts", [square], indirect=True)
def test_what_is_known_is_not_measured_again(attempts: Attempts) -> None:
    first = search(Squares(), Grid(Squares().space, np.random.default_rng(0)), attempts, trials=6)
    method = Random(Squares().space, np.random.default_rng(0))
    second = search(Squares(), method, attempts, trials=100, known=first.records)
    points = [int(r.point["k"]) for r in second.records]
    assert sorted(points) == [*range(20)]
    assert isinstance(second, Found)


@pytest.mark.parametrize("attempts", [square], indirect=True)
def test_no_batch_begins_after_the_deadline(attempts: Attempts) -> None:
    late = time.monotonic() - 1
    found = search(
        Squares(),
        Grid(Squares().space, np.random.default_rng(0)),
        attempts,
        trials=8,
        deadline=late,
    )
    assert found.records == []
