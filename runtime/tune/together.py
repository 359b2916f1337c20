"""Schedules chosen in the network that they run in: alone, a schedule does not know its neighbours.

Operators that follow one another make one program, in which the loads of one run beside the
arithmetic of the one before; the fastest alone is not always the fastest there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from vdla.compiler.graph import Graph
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import OK, Record, read_record
from vdla.config import Config

from .search import Runner
from .tuning import Job

__all__ = ["Together", "Whole", "choose_together", "fastest_of", "whole_cycles"]


@dataclass(frozen=True, eq=False)
class Whole:
    """A network whose schedules are given, as what can be measured.

    Parameters
    ----------
    graph : Graph
    config : Config
    vthreads : int
    place : mapping of str to str
    """

    graph: Graph
    config: Config
    vthreads: int = 2
    place: Mapping[str, str] = field(default_factory=dict)


def whole_cycles(whole: Whole, records: Point, to_beat: float) -> float:
    """Return the cycles of a network's programs on the cycle model, its values not computed.

    Parameters
    ----------
    whole : Whole
    records : mapping of str to str
        Lines of records by the keys of their tasks; other operators are scheduled as ever.
    to_beat : float
        Not used: values are checked of the network that is chosen.
    """
    from vdla.compiler.network import compile_graph
    from vdla.sim import cycle

    found = [read_record(str(line)) for line in records.values()]
    module = compile_graph(
        whole.graph,
        whole.config,
        vthreads=whole.vthreads,
        place=whole.place,
        records=Database(one for one in found if one is not None),
    )
    memory = np.zeros(module.arena_bytes, np.uint8)
    for segment in module.segments:
        memory[segment.offset : segment.offset + segment.data.nbytes] = segment.data
    return float(sum(cycle.time(program, memory).cycles for program in module.programs))


@dataclass
class Together:
    """What was chosen so far.

    Attributes
    ----------
    before, cycles : float
        Of the network as it is compiled untuned, and with what is chosen.
    chosen : dict of str to Record
        By the keys of their tasks.
    tried : int
        Networks that were compiled and timed.
    """

    before: float
    cycles: float
    chosen: dict[str, Record] = field(default_factory=dict)
    tried: int = 0


def choose_together(
    whole: Whole,
    jobs: Sequence[Job],
    runner: Runner,
    *,
    earlier: Iterable[Record] = (),
    most: int = 3,
    deadline: float = inf,
    told: Callable[[int, int, str], None] = lambda done, total, doing: None,
) -> Together:
    """Choose a schedule for each task of a network by the cycles of the whole.

    It begins with the compiler's own schedules, with the fastest of each task, or with those that
    were chosen for this network before, whichever are faster together. Then it tries a few of the
    fastest of one task after another, those first that run longest. Every task that was searched
    gets a choice, so that what another network or run has found has no part in this one.

    Parameters
    ----------
    whole : Whole
    jobs : sequence of Job
        Searched.
    runner : Runner
        Measures with `whole_cycles`.
    earlier : iterable of Record
        What was chosen before.
    most : int
        Schedules of a task to try.
    deadline : float
        Of `time.monotonic`: nothing is tried after it.
    told : callable
        Called with the tasks done, the tasks in all, and what is being tried.
    """
    ordered = sorted(jobs, key=lambda job: -len(job.nodes) * min(job.best, job.estimate))
    own = {job.template.task.key: record for job in ordered if (record := _own(job)) is not None}
    fastest = {job.template.task.key: found[0] for job in ordered if (found := fastest_of(job, 1))}
    mine = [record for record in earlier if record.chosen_in == whole.graph.name]
    before = {record.task.key: record for record in mine if record.task.key in own}
    told(0, len(ordered), "the fastest of each")
    starts = [own, {**own, **fastest}, *([{**own, **before}] if before else [])]
    costs = _measured(whole, starts, runner)
    least = costs.index(min(costs))
    state = Together(costs[0], costs[least], starts[least], tried=len(starts))
    for done, job in enumerate(ordered):
        if time.monotonic() > deadline:
            break
        told(done, len(ordered), job.nodes[0])
        key = job.template.task.key
        if key not in state.chosen:
            continue
        others = [r for r in fastest_of(job, most) if r.point != state.chosen[key].point]
        costs = _measured(whole, [{**state.chosen, key: one} for one in others], runner)
        state.tried += len(others)
        if costs and min(costs) < state.cycles:
            state.cycles = min(costs)
            state.chosen[key] = others[costs.index(state.cycles)]
    state.chosen = {
        key: replace(record, chosen_in=whole.graph.name) for key, record in state.chosen.items()
    }
    return state


def fastest_of(job: Job, count: int) -> list[Record]:
    """Return the fastest records of a task, each point once, of equals the first in its space."""
    if job.search is None:
        return []
    good = [r for r in job.search.found.records if r.status == OK and r.cost is not None]
    once = {job.template.space.get(record.point): record for record in good}
    ordered = sorted(once.items(), key=lambda one: (one[1].cost or inf, one[0] or 0))
    return [record for _, record in ordered[:count]]


def _own(job: Job) -> Record | None:
    """Return the record of what the compiler takes itself."""
    found = [] if job.search is None else job.search.found.records
    good = [r for r in found if r.point == job.point and r.status == OK]
    return good[0] if good else None


def _measured(whole: Whole, choices: Sequence[dict[str, Record]], runner: Runner) -> list[float]:
    """Return the cycles of the network with each of several choices, taken as it will take them."""
    costs = [inf] * len(choices)
    name = whole.graph.name
    points = [
        {key: replace(record, chosen_in=name).to_json() for key, record in one.items()}
        for one in choices
    ]
    for k, outcome in runner.run(whole, points, inf) if points else ():
        costs[k] = inf if outcome.cost is None else outcome.cost
    return costs
