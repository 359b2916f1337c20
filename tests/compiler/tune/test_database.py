"""A schedule is found for its own task, and for no other, however alike."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.tune.database import Database, built_in
from vdla.compiler.tune.task import Record, Task

TASK = Task("conv2d", 1, {"height": 7}, {"kind": "vdla", "config": "0f", "vthreads": 2})


def record(cost: float | None, rows: int, task: Task = TASK, status: str = "ok") -> Record:
    return Record(task, {"rows": rows}, cost, "cycles", status)


def test_the_cheapest_that_ran_is_found() -> None:
    known = Database([record(9, 1), record(7, 2), record(8, 3), record(None, 4, status="crash")])
    assert len(known) == 1
    found = known.find(TASK)
    assert found is not None
    assert found.point == {"rows": 2}


def test_what_was_chosen_in_a_network_or_measured_on_hardware_goes_first() -> None:
    alone, chosen = record(7, 1), replace(record(9, 2), chosen_in="net")
    later = replace(record(8, 3), chosen_in="net")
    board = replace(record(12, 4), device="pynq")
    simulated = replace(record(5, 5), device="cycle")
    for records, rows in (
        ([alone, chosen], 2),
        ([chosen, alone], 2),
        ([chosen, later], 3),
        ([simulated, board], 4),
        ([board, simulated], 4),
        ([chosen, board], 2),
    ):
        found = Database(records).find(TASK)
        assert found is not None
        assert found.point == {"rows": rows}


def test_what_is_merely_alike_is_not() -> None:
    known = Database([record(9, 1)])
    assert known.find(replace(TASK, template=2)) is None
    assert known.find(replace(TASK, shape={"height": 8})) is None
    assert known.find(replace(TASK, target={**TASK.target, "vthreads": 1})) is None


def test_one_database_goes_over_another() -> None:
    other = replace(TASK, operator="dense")
    ours, theirs = Database([record(9, 1)]), Database([record(5, 2), record(4, 3, other)])
    both = ours.over(theirs)
    assert {one.point["rows"] for one in both} == {1, 3}
    assert both.digest not in (ours.digest, theirs.digest)
    assert both.digest == ours.over(Database(reversed(list(theirs)))).digest


def test_records_come_with_vdla() -> None:
    assert len(built_in()) > 50
    for one in built_in():
        assert built_in().find(one.task) is one
