"""A schedule is found for its own task, and for no other, however alike."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

from vdla.compiler.tune.database import Database, built_in
from vdla.compiler.tune.task import Record, Task, read_record

TASK = Task("conv2d", 1, {"height": 7}, {"kind": "vdla", "config": "0f", "vthreads": 2})


def record(cost: float | None, rows: int, task: Task = TASK, status: str = "ok") -> Record:
    return Record(task, {"rows": rows}, cost, "cycles", status)


def test_the_cheapest_that_ran_is_found() -> None:
    known = Database([record(9, 1), record(7, 2), record(8, 3), record(None, 4, status="crash")])
    assert len(known) == 1
    found = known.find(TASK)
    assert found is not None
    assert found.point == {"rows": 2}


def test_a_network_takes_what_was_chosen_in_it_and_others_the_cheapest() -> None:
    alone, chosen = record(7, 1), replace(record(9, 2), chosen_in="net")
    later = replace(record(8, 3), chosen_in="net")
    known = Database([chosen, alone, later])
    assert rows_of(known.find(TASK, "net")) == 3
    assert rows_of(known.find(TASK, "other")) == rows_of(known.find(TASK)) == 1
    assert {one.point["rows"] for one in known} == {1, 3}
    newer = Database([replace(record(20, 5), chosen_in="net")]).over(known)
    assert rows_of(newer.find(TASK, "net")) == 5
    # A task that is known at all is known whole: no choice of an older file stands before it.
    assert rows_of(Database([record(9, 6)]).over(known).find(TASK, "net")) == 6


def test_hardware_goes_before_simulators() -> None:
    board = replace(record(12, 4), device="pynq")
    simulated = replace(record(5, 5), device="cycle")
    for records in ([simulated, board], [board, simulated]):
        assert rows_of(Database(records).find(TASK)) == 4


def test_what_computes_wrong_values_is_never_given_out() -> None:
    wrong = record(None, 1, status="wrong result")
    for records in ([record(5, 1), wrong, record(9, 2)], [wrong, record(9, 2), record(5, 1)]):
        assert rows_of(Database(records).find(TASK)) == 2


def rows_of(found: Record | None) -> object:
    return None if found is None else found.point["rows"]


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
        assert built_in().find(one.task, one.chosen_in) is one


def test_shipped_records_are_in_order_and_each_changes_something() -> None:
    file = resources.files("vdla.compiler.tune") / "schedules" / "pynq-z1.jsonl"
    lines = file.read_text("utf-8").splitlines()
    assert lines == sorted(set(lines))
    found = [read_record(line) for line in lines]
    records = [one for one in found if one is not None]
    assert len(records) == len(lines)
    alone = {one.task.key: one for one in records if not one.chosen_in}
    assert len(alone) == sum(not one.chosen_in for one in records)
    for one in records:
        assert (one.status, one.device, one.unit, one.features) == ("ok", "cycle", "cycles", ())
        assert one.tool
        if one.chosen_in:  # else the network would take the cheapest, the same
            assert one.point != alone[one.task.key].point
            assert (one.cost or 0) >= (alone[one.task.key].cost or 0)
