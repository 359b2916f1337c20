"""Methods are compared on a table of all points that may be the best."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.tune.fakes import Bowl, Here, cost_of
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.race import Table, first_within, race


def test_a_table_leaves_out_what_its_floor_keeps_from_the_best(tmp_path: Path) -> None:
    template, runner = Bowl(7, 30), Here()
    table = Table(template, runner, Log(tmp_path / "t.jsonl"))
    table.complete(0.01)
    floors = [cost_of(template, point) / 2 for point in template.space]
    assert table.best == 100
    assert sum(floor <= 101 for floor in floors) <= table.measured < len(template.space)
    assert table.within(0.01) == 2 + 1  # itself and its neighbours along x
    again = Table(template, Here(stop_after=0), Log(tmp_path / "t.jsonl"))
    again.complete(0.01)
    assert (again.best, again.measured) == (100, table.measured)


@pytest.mark.parametrize("method", ["ranking", "random"])
def test_a_race_tells_when_it_was_close(method: str, tmp_path: Path) -> None:
    table = Table(Bowl(7, 30), Here(), Log(tmp_path / "t.jsonl"))
    table.complete(0.01)
    found = race(table, method, trials=64, seed=1)
    assert len(found.costs) == 64
    assert min(found.costs) >= table.best
    if method == "ranking":
        assert first_within(found.costs, table.best, 0.01) is not None


def test_the_first_within_a_share() -> None:
    assert first_within([9, 5.06, 5.05, 5.0], 5.0, 0.01) == 3
    assert first_within([9, 6], 5.0, 0.01) is None
