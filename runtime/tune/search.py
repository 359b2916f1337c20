"""One task searched: points proposed, attempted, remembered, and told to the method."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import numpy as np

import vdla
from vdla.compiler.tune.features import Features
from vdla.compiler.tune.methods import Method
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import OK, Record, Task
from vdla.errors import DeviceError

from .attempt import Outcome
from .log import Log

__all__ = ["Found", "Runner", "Search", "Template", "Workers", "record_of", "search"]


class Template(Protocol):
    """What can be scheduled in many ways; picklable."""

    @property
    def task(self) -> Task:
        """The key of its records."""

    @property
    def space(self) -> Space:
        """The ways."""

    @property
    def unit(self) -> str:
        """What costs are measured in: ``cycles`` or ``seconds``."""

    def prior(self, point: Point) -> float:
        """Return an estimate of a point's cost."""

    def floor(self, point: Point) -> float:
        """Return what a point's cost cannot go below, 0 where nothing is known."""

    def features(self, point: Point) -> Features | None:
        """Return what a model sees of a point, None where it cannot be lowered."""


class Runner(Protocol):
    """Who attempts candidates."""

    def run(
        self, template: Any, points: Sequence[Point], to_beat: float
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the place of each point, and what became of it, as they are done."""


class Workers(Runner, Protocol):
    """Who attempts candidates, and looks at those that may become some."""

    def features(self, template: Any, points: Sequence[Point]) -> list[Features | None]:
        """Return what a model sees of points, None for each that cannot be lowered."""


@dataclass
class Found:
    """What a search has found so far.

    Attributes
    ----------
    records : list of Record
        In the order that they were measured in; those known before come first.
    best : Record or None
    failures : Counter
        Candidates that failed, by what became of them.
    """

    records: list[Record] = field(default_factory=list)
    best: Record | None = None
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def cost(self) -> float:
        """The least; infinity where nothing has run."""
        return inf if self.best is None or self.best.cost is None else self.best.cost

    def add(self, record: Record) -> None:
        """Take a record in."""
        self.records.append(record)
        if record.status != OK or record.cost is None:
            self.failures[record.status] += 1
        elif self.best is None or _rank(record) < _rank(self.best):
            self.best = record

    def drop(self, wrong: Record) -> None:
        """Put a record in the place of the one of its point, which computes wrong values."""
        self.records = [wrong if r.point == wrong.point else r for r in self.records]
        self.failures[wrong.status] += 1
        good = [r for r in self.records if r.status == OK and r.cost is not None]
        self.best = min(good, key=_rank, default=None)


def _rank(record: Record) -> tuple[float, str]:
    """Return what orders records, whichever of equals was measured first."""
    return inf if record.cost is None else record.cost, repr(sorted(record.point.items()))


class Search:
    """Searches one task, a batch at a time.

    Parameters
    ----------
    template : Template
    method : Method
    runner : Workers
    log : Log, optional
        Where each record is kept as soon as it is there.
    device : str
        Where the runner measures.
    known : iterable of Record
        Of this task, measured before.
    told : callable
        Called after each candidate.
    spared : bool
        Whether points whose floor is no less than the best cost are left out.
    """

    def __init__(
        self,
        template: Template,
        method: Method,
        runner: Workers,
        log: Log | None = None,
        *,
        device: str = "cycle",
        known: Iterable[Record] = (),
        told: Callable[[Found], None] = lambda found: None,
        spared: bool = True,
    ) -> None:
        self.template, self.method, self.found = template, method, Found()
        self._device = device
        self._runner, self._log, self._told, self._spared = runner, log, told, spared
        space = template.space
        costs = {}
        for record in known:
            point = space.get(record.point)
            if point is None or record.chosen_in:  # no way of this template, or a second time
                continue
            self.found.add(record)
            costs[point] = inf if record.cost is None else record.cost
        self.known = len(self.found.records)
        order = sorted(costs)
        method.tell(order, [costs[point] for point in order])
        self._floors = np.array([template.floor(point) for point in space])
        self._drop()

    def propose(self, count: int) -> list[int]:
        """Return at most so many points that the method wants measured; none when all are."""
        return self.method.propose(count)

    def attempt(self, points: Sequence[int]) -> None:
        """Measure points, keep what becomes of them, and tell the method.

        Raises
        ------
        DeviceError
            All of them fail: the next ones would too.
        """
        space, task = self.template.space, self.template.task
        costs = [inf] * len(points)
        some: list[Record] = []
        asked = [space[point] for point in points]
        seen = [_rounded(found) for found in self.method.seen(points)]
        for k, outcome in self._runner.run(self.template, asked, self.found.cost):
            record = record_of(self.template, asked[k], outcome, self._device, seen[k])
            if self._log is not None:
                self._log.append([record])
            some.append(record)
            self.found.add(record)
            costs[k] = inf if outcome.cost is None else outcome.cost
            self._told(self.found)
        if all(record.status != OK for record in some):
            first = some[0]
            raise DeviceError(
                f"Candidates must run, and all {len(some)} of a batch for {task.name} fail: "
                f"{first.status}: {first.reason}: what was measured before is kept"
            )
        self.method.tell(points, costs)
        self._drop()

    def run(self, trials: int, batch: int, deadline: float = inf) -> Found:
        """Measure at most so many candidates, a batch at a time, and return what is found."""
        left = trials
        while left > 0 and time.monotonic() < deadline:
            points = self.propose(min(batch, left))
            if not points:
                break
            left -= len(points)
            self.attempt(points)
        return self.found

    @property
    def proven(self) -> bool:
        """Whether no point is left that could be faster than the best."""
        space = self.template.space
        measured = {space.get(record.point) for record in self.found.records}
        left = np.flatnonzero(self._floors < self.found.cost)
        return all(int(point) in measured for point in left)

    def _drop(self) -> None:
        """Spare the points that cannot beat the best."""
        if self._spared:
            self.method.drop(np.flatnonzero(self._floors >= self.found.cost).tolist())


def _rounded(features: Features | None) -> tuple[float, ...]:
    return () if features is None else tuple(round(float(value), 3) for value in features)


def search(
    template: Template,
    method: Method,
    runner: Workers,
    log: Log | None = None,
    *,
    trials: int,
    batch: int = 8,
    known: Iterable[Record] = (),
    deadline: float = inf,
    told: Callable[[Found], None] = lambda found: None,
) -> Found:
    """Return what a method finds.

    Parameters
    ----------
    template, method, runner, log, known, told
        As `Search` takes them.
    trials : int
        Candidates to measure, those known not counted.
    batch : int
        Candidates proposed at a time.
    deadline : float
        Of `time.monotonic`: no batch begins after it.

    Raises
    ------
    DeviceError
        All candidates of a batch fail: the next ones would too.
    """
    one = Search(template, method, runner, log, known=known, told=told)
    return one.run(trials, batch, deadline)


def record_of(
    template: Template,
    point: Point,
    outcome: Outcome,
    device: str,
    features: tuple[float, ...] = (),
) -> Record:
    """Return what became of a candidate as a record."""
    return Record(
        template.task,
        point,
        outcome.cost,
        template.unit,
        outcome.status,
        outcome.reason,
        vdla.__version__,
        device,
        features,
    )
