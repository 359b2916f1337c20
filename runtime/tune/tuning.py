"""A network tuned: its tasks searched in turn, those first that may gain most."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from vdla.compiler.tune.features import NAMES
from vdla.compiler.tune.guided import Guided, Known
from vdla.compiler.tune.methods import Genetic, Grid, Method, Random
from vdla.compiler.tune.model import Ranking, Regression
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import OK, SIMULATED, Record

from .log import Log
from .search import Search, Template, Workers

__all__ = ["METHODS", "Job", "Tuning", "known_of", "method_of", "search_jobs"]

METHODS: Mapping[str, str] = {
    "ranking": "a model that learns the order of schedules, and annealing on what it predicts",
    "regression": "the same with a model that learns their costs",
    "genetic": "children of the fastest",
    "random": "any, each as likely",
    "grid": "all, one after the other",
}
"""What proposes candidates, by name."""

_KNOWN = 2000
"""Records of other tasks that a model learns from, at most; of more, every second or third."""

_HOPE, _FADING = 0.05, 0.6
"""What a batch is hoped to gain, and what is left of that after each that did not."""


@dataclass
class Job:
    """A task of a network.

    Attributes
    ----------
    template : Template
    nodes : list of str
        Operators of the network that it is the schedule of.
    point : mapping
        What the compiler takes itself: measured first.
    estimate : float
        What the compiler expects that to cost.
    search : Search or None
        None before its first batch.
    start : float
        What the compiler's own schedule costs; infinity before it was measured.
    """

    template: Template
    nodes: list[str]
    point: Point
    estimate: float
    search: Search | None = None
    start: float = inf
    _idle: int = 0
    _ended: bool = False

    @property
    def best(self) -> float:
        """The least cost; infinity where nothing has run."""
        return inf if self.search is None else self.search.found.cost

    @property
    def trials(self) -> int:
        """Candidates measured, those known before not counted."""
        return 0 if self.search is None else len(self.search.found.records) - self.search.known

    @property
    def failures(self) -> Counter[str]:
        """Candidates that failed, by what became of them."""
        return Counter() if self.search is None else self.search.found.failures

    @property
    def predicted(self) -> float | None:
        """What a model expects of the best of the last batch."""
        return None if self.search is None else self.search.method.predicted

    @property
    def gain(self) -> float:
        """What the network is spared by now."""
        return len(self.nodes) * (self.start - self.best) if self.start < inf else 0.0

    @property
    def promise(self) -> float:
        """What the next batch may gain; those not begun yet go first."""
        if self.search is None:
            return len(self.nodes) * self.estimate * 1e6
        return len(self.nodes) * min(self.best, self.estimate) * _HOPE * _FADING**self._idle

    def open(self, trials: int) -> bool:
        """Tell whether a batch is left to measure."""
        return self.trials < trials and not self._ended

    def step(self, count: int) -> None:
        """Measure a batch; before the first one what the compiler takes, which is then to beat."""
        assert self.search is not None
        if self.start == inf:
            count -= self._begin(self.search)
        before = self.best
        points = self.search.propose(count) if count > 0 else []
        if points:
            self.search.attempt(points)
        self._ended = not points and count > 0
        self._idle = 0 if self.best < before else self._idle + 1

    def _begin(self, search: Search) -> int:
        """Find out what the compiler's own schedule costs; return how many candidates that took."""
        known = [r for r in search.found.records if r.point == self.point]
        own = search.template.space.get(self.point)
        if own is not None and not known:
            search.method.drop([own])
            search.attempt([own])
            known = search.found.records[-1:]
        costs = [r.cost for r in known if r.status == OK and r.cost is not None]
        self.start = costs[0] if costs else self.best
        return self.trials


@dataclass
class Tuning:
    """How far a network is tuned.

    Attributes
    ----------
    jobs : list of Job
    doing : Job or None
        Whose candidates are being measured.
    begun : float
        Of `time.monotonic`.
    ended : float or None
        The same; None until then.
    interrupted : bool
        Whether it was stopped from the keyboard.
    """

    jobs: list[Job]
    doing: Job | None = None
    begun: float = field(default_factory=time.monotonic)
    ended: float | None = None
    interrupted: bool = False

    @property
    def trials(self) -> int:
        """Candidates measured."""
        return sum(job.trials for job in self.jobs)

    @property
    def seconds(self) -> float:
        """That the search has taken."""
        return (time.monotonic() if self.ended is None else self.ended) - self.begun


def search_jobs(
    jobs: Sequence[Job],
    runner: Workers,
    log: Log,
    *,
    device: str = "cycle",
    method: str = "ranking",
    trials: int = 64,
    batch: int = 8,
    deadline: float = inf,
    seed: int = 0,
    told: Callable[[Tuning], None] = lambda tuning: None,
) -> Tuning:
    """Search the tasks of a network; what is interrupted has kept all that was measured.

    Parameters
    ----------
    jobs : sequence of Job
    runner : Workers
    log : Log
        Records of these tasks are not measured again; those of others teach the model.
    device : str
        Where candidates are measured: what was measured on another one is measured again, but the
        cycle model's count is the gateware's.
    method : str
        Of `METHODS`.
    trials : int
        Candidates of each task, at most.
    batch : int
        Candidates proposed at a time.
    deadline : float
        Of `time.monotonic`: no batch begins after it.
    seed : int
    told : callable
        Called after each candidate.

    Raises
    ------
    DeviceError
        All candidates of a batch fail.
    """
    state = Tuning(list(jobs))
    try:
        while time.monotonic() < deadline:
            ready = [job for job in jobs if job.open(trials)]
            if not ready:
                break
            job = state.doing = max(ready, key=lambda one: one.promise)
            if job.search is None:
                records = log.read().records
                known = known_of(records, job.template)
                chosen = method_of(method, job.template, runner, seed, known)
                key, alike = job.template.task.key, SIMULATED if device in SIMULATED else (device,)
                job.search = Search(
                    job.template,
                    chosen,
                    runner,
                    log,
                    device=device,
                    known=[r for r in records if r.task.key == key and r.device in alike],
                    told=lambda _: told(state),
                )
            job.step(min(batch, trials - job.trials))
    except KeyboardInterrupt:
        state.interrupted = True
    state.doing, state.ended = None, time.monotonic()
    return state


def method_of(
    name: str, template: Template, runner: Workers, seed: int, known: Known | None = None
) -> Method:
    """Return a method of `METHODS` for a template; a model's features come from the runner."""
    space, rng = template.space, np.random.default_rng(seed)
    if name == "random":
        return Random(space, rng)
    if name == "grid":
        return Grid(space, rng)
    if name == "genetic":
        return Genetic(space, rng)
    return Guided(
        space,
        lambda points: runner.features(template, [space[k] for k in points]),
        Ranking(seed) if name == "ranking" else Regression(seed),
        rng,
        prior=lambda k: template.prior(space[k]),
        known=known,
    )


def known_of(records: Sequence[Record], template: Template) -> Known | None:
    """Return what records of other tasks teach a model; None where there are none."""
    # In an order that does not depend on which candidate was done first: nor does the model then.
    ordered = sorted(records, key=lambda record: (record.task.key, record.to_json()))
    others = [
        record
        for record in ordered
        if record.status == OK
        and record.cost is not None
        and len(record.features) == len(NAMES)
        and record.unit == template.unit
        and record.task.key != template.task.key
    ]
    others = others[:: -(-len(others) // _KNOWN)] if others else []
    if not others:
        return None
    groups = {key: n for n, key in enumerate(dict.fromkeys(r.task.key for r in others))}
    return Known(
        np.array([record.features for record in others], np.float32),
        np.array([record.cost for record in others], np.float64),
        np.array([groups[record.task.key] for record in others], np.int64),
    )
