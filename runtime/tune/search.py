"""One task searched: points proposed, attempted, remembered, and told to the method."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import vdla
from vdla.compiler.tune.methods import Method
from vdla.compiler.tune.task import OK, Record
from vdla.errors import DeviceError

from .attempts import Attempts
from .log import Log

__all__ = ["Found", "search"]


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
        elif record.cost < self.cost:
            self.best = record


def search(
    template: Any,
    method: Method,
    attempts: Attempts,
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
    template : object
        Has a task, a space and a unit.
    method : Method
    attempts : Attempts
    log : Log, optional
        Where each record is kept as soon as it is there.
    trials : int
        Candidates to measure, those known not counted.
    batch : int
        Candidates proposed at a time.
    known : iterable of Record
        Of this task, measured before.
    deadline : float
        Of `time.monotonic`: no batch begins after it.
    told : callable
        Called after each candidate.

    Raises
    ------
    DeviceError
        All candidates of a batch fail: the next ones would too.
    """
    found = Found()
    space, task = template.space, template.task
    for record in known:
        found.add(record)
    method.tell(
        [space.index(record.point) for record in found.records],
        [inf if record.cost is None else record.cost for record in found.records],
    )
    left = trials
    while left > 0 and time.monotonic() < deadline:
        points = method.propose(min(batch, left))
        if not points:
            break
        left -= len(points)
        costs = [inf] * len(points)
        some: list[Record] = []
        for k, outcome in attempts.run(template, [space[point] for point in points], found.cost):
            record = Record(
                task,
                space[points[k]],
                outcome.cost,
                template.unit,
                outcome.status,
                outcome.reason,
                vdla.__version__,
            )
            if log is not None:
                log.append([record])
            some.append(record)
            found.add(record)
            costs[k] = inf if outcome.cost is None else outcome.cost
            told(found)
        if all(record.status != OK for record in some):
            first = some[0]
            raise DeviceError(
                f"Candidates must run, and all {len(some)} of a batch for {task.name} fail: "
                f"{first.status}: {first.reason}: what was measured before is kept"
            )
        method.tell(points, costs)
    return found
