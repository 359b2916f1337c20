"""Methods of search compared on one task whose best point is known for sure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from vdla.compiler.tune.features import Features
from vdla.compiler.tune.guided import Known
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import Record

from .attempt import Outcome
from .log import Log
from .search import Search, Template, Workers, record_of
from .tuning import method_of

__all__ = ["Race", "Table", "first_within", "race"]

_BATCH = 16


class Table:
    """Every point of a task that may be among the best, measured.

    Points whose floor lies beyond the best by more than a share are left out: measuring them could
    not change what the best is. It attempts candidates itself: those in it are looked up.

    Parameters
    ----------
    template : Template
    runner : Workers
        Measures what the table lacks.
    log : Log
        Where it is kept: a table that was interrupted goes on.
    """

    def __init__(self, template: Template, runner: Workers, log: Log) -> None:
        self.template, self._runner, self._log = template, runner, log
        space = template.space
        self._costs: dict[int, Outcome] = {}
        self._seen: dict[int, Features | None] = {}
        for record in log.read().records:
            place = space.get(record.point) if record.task.key == template.task.key else None
            if place is not None:
                self._costs[place] = Outcome(record.cost, record.status, record.reason)
        self.floors = np.array([template.floor(point) for point in space])

    @property
    def best(self) -> float:
        """The least cost; infinity where nothing has run."""
        return min((one.cost for one in self._costs.values() if one.cost is not None), default=inf)

    @property
    def measured(self) -> int:
        """Points that are in it."""
        return len(self._costs)

    def within(self, share: float) -> int:
        """Return how many points are beyond the best by at most a share."""
        most = self.best * (1 + share)
        return sum(one.cost is not None and one.cost <= most for one in self._costs.values())

    def complete(
        self, share: float = 0.01, told: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Measure what is left, in the order of the template's estimates.

        Parameters
        ----------
        share : float
            Beyond the best, in which no point is left out.
        told : callable
            Called with the points measured and those in all, less the ones left out.
        """
        space = self.template.space
        order = sorted(range(len(space)), key=lambda k: self.template.prior(space[k]))
        while True:
            most = self.best * (1 + share)
            left = [k for k in order if k not in self._costs and self.floors[k] <= most]
            told(self.measured, self.measured + len(left))
            if not left:
                return
            some = left[:_BATCH]
            for _ in self.run(self.template, [space[k] for k in some], self.best):
                pass

    def run(
        self, template: Any, points: Sequence[Point], to_beat: float
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the place of each point, and what became of it."""
        space = self.template.space
        places = [space.index(point) for point in points]
        new = [k for k, place in enumerate(places) if place not in self._costs]
        asked = [points[k] for k in new]
        for at, outcome in self._runner.run(template, asked, to_beat) if asked else ():
            self._costs[places[new[at]]] = outcome
            device = "cpu" if template.unit == "seconds" else "cycle"
            self._log.append([record_of(template, asked[at], outcome, device)])
        for k, place in enumerate(places):
            yield k, self._costs[place]

    def features(self, template: Any, points: Sequence[Point]) -> list[Features | None]:
        """Return what a model sees of points; of each it is found out once."""
        space = self.template.space
        places = [space.index(point) for point in points]
        new = [place for place in places if place not in self._seen]
        found = self._runner.features(template, [space[place] for place in new]) if new else []
        self._seen.update(zip(new, found, strict=True))
        return [self._seen[place] for place in places]

    def bounded(self) -> Workers:
        """Return a runner that measures nothing: what is not in the table costs its floor.

        A method that has no model does not learn less from it, and is not made to look worse.
        """
        return _Bounded(self)

    def cost(self, place: int) -> Outcome:
        """Return what is known of a point, at least its floor."""
        return self._costs.get(place, Outcome(float(self.floors[place])))


@dataclass(frozen=True)
class _Bounded:
    table: Table

    def run(
        self, template: Any, points: Sequence[Point], to_beat: float
    ) -> Iterator[tuple[int, Outcome]]:
        space = template.space
        for k, point in enumerate(points):
            yield k, self.table.cost(space.index(point))

    def features(self, template: Any, points: Sequence[Point]) -> list[Features | None]:
        return self.table.features(template, points)


@dataclass(frozen=True)
class Race:
    """What one search found.

    Attributes
    ----------
    costs : tuple of float
        Of its candidates in turn, infinity for those that failed.
    records : tuple of Record
        The same with their features.
    """

    costs: tuple[float, ...]
    records: tuple[Record, ...]


def race(
    table: Table,
    method: str,
    *,
    trials: int,
    batch: int = 8,
    seed: int = 0,
    known: Known | None = None,
) -> Race:
    """Return what a method finds in a table.

    Parameters
    ----------
    table : Table
    method : str
        Of `vdla.runtime.tune.tuning.METHODS`.
    trials, batch, seed : int
    known : Known, optional
        Of other tasks, for methods with a model.
    """
    template = table.template
    guided = method in ("ranking", "regression")
    runner = table if guided else table.bounded()
    chosen = method_of(method, template, runner, seed, known)
    search = Search(template, chosen, runner, spared=guided)
    records = search.run(trials, batch).records
    return Race(tuple(inf if r.cost is None else r.cost for r in records), tuple(records))


def first_within(costs: Sequence[float], best: float, share: float) -> int | None:
    """Return after how many trials a cost is beyond the best by at most a share; None if never."""
    for trial, cost in enumerate(costs, 1):
        if cost <= best * (1 + share):
            return trial
    return None
