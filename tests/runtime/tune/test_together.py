"""The schedules of a network are chosen by the cycles of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.runtime.tune.fakes import Bowl, Here, cost_of
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import read_record
from vdla.compiler.zoo import built_in
from vdla.config import PYNQ_Z1
from vdla.runtime import api
from vdla.runtime.inputs import random_input
from vdla.runtime.tune.attempt import Outcome
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.together import Whole, choose_together, whole_cycles
from vdla.runtime.tune.tuning import Job, search_jobs

START = {"x": 0, "y": 0}


class Neighbours:
    """A network of bowls, in which what is the best alone is slow beside the others."""

    def __init__(self, templates: Sequence[Bowl]) -> None:
        self.templates = templates

    def run(
        self, whole: Any, choices: Sequence[Point], to_beat: float
    ) -> Iterator[tuple[int, Outcome]]:
        for k, choice in enumerate(choices):
            yield k, Outcome(self.cycles(choice))

    def cycles(self, choice: Point) -> float:
        total = 0.0
        for template in self.templates:
            point: Point = START
            if template.task.key in choice:
                record = read_record(str(choice[template.task.key]))
                assert record is not None
                point = record.point
            best = {"x": template.least, "y": template.least}
            total += cost_of(template, point) + (50 if point == best else 0)
        return total


def test_the_best_alone_gives_way_to_what_is_better_together(tmp_path: Path) -> None:
    templates = [Bowl(3), Bowl(7)]
    jobs = [Job(one, [str(one.least)], START, cost_of(one, START)) for one in templates]
    search_jobs(jobs, Here(), Log(tmp_path / "r.jsonl"), trials=144)
    network, whole = Neighbours(templates), Whole(built_in("digits"), PYNQ_Z1)
    found = choose_together(whole, jobs, network)
    assert found.before == sum(cost_of(one, START) for one in templates)
    assert found.cycles == 2 * 101
    for template in templates:
        record = found.chosen[template.task.key]
        assert record.cost == 101
        assert record.chosen_in == "digits"
        # The faster one alone stands behind it, in this network.
        alone = job_of(jobs, template).search.found.records
        known = Database([*alone, record])
        assert [known.find(template.task, name).cost for name in ("digits", "")] == [101, 100]


def test_a_task_whose_own_schedule_is_best_together_is_chosen_too(tmp_path: Path) -> None:
    """Else the fastest alone would be taken from the file."""
    templates = [Bowl(3), Bowl(7)]
    own = {"x": 3, "y": 3}, {"x": 7, "y": 7}
    jobs = [
        Job(one, [str(one.least)], point, 100.0) for one, point in zip(templates, own, strict=True)
    ]
    search_jobs(jobs, Here(), Log(tmp_path / "r.jsonl"), trials=16)

    class Alone(Neighbours):
        def cycles(self, choice: Point) -> float:
            return 10.0 + sum('"x":0' in str(line) for line in choice.values())

    found = choose_together(Whole(built_in("digits"), PYNQ_Z1), jobs, Alone(templates))
    assert found.cycles == found.before == 10
    assert {key: record.point for key, record in found.chosen.items()} == {
        one.task.key: point for one, point in zip(templates, own, strict=True)
    }
    earlier = list(found.chosen.values())
    again = choose_together(
        Whole(built_in("digits"), PYNQ_Z1), jobs, Alone(templates), earlier=earlier
    )
    assert again.chosen == found.chosen


def job_of(jobs: Sequence[Job], template: Bowl) -> Any:
    return next(job for job in jobs if job.template is template)


def test_a_whole_network_takes_the_cycles_of_its_run() -> None:
    graph = built_in("digits")
    network = api.compile(graph)
    info = network.inputs[graph.inputs[0]]
    run = network.run(random_input(info.shape, info.dtype), device="cycle")
    assert whole_cycles(Whole(graph, PYNQ_Z1), {}, 0.0) == run.cycles
