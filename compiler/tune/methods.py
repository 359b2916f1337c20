"""Methods that propose what to measure next, without a model: the baselines of one with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from .features import Features
from .space import Space

__all__ = ["Genetic", "Grid", "Method", "Proposer", "Random"]


class Method(Protocol):
    """Proposes points of a space, none twice."""

    predicted: float | None
    """The cost that a model expects of the best of the last proposals, None without a model."""

    def propose(self, count: int) -> list[int]:
        """Return at most so many points that were not proposed before; none when all were."""

    def tell(self, points: Sequence[int], costs: Sequence[float]) -> None:
        """Learn what was measured; infinity stands for a failure."""

    def drop(self, points: Iterable[int]) -> None:
        """Leave out points that cannot be the fastest."""

    def seen(self, points: Sequence[int]) -> list[Features | None]:
        """Return the features of points that it has proposed, None where it needs none."""


class Proposer:
    """What methods share: which points were proposed or told, and others at random.

    Parameters
    ----------
    space : Space
    rng : Generator
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.space, self.rng = space, rng
        self.predicted: float | None = None
        self._costs: dict[int, float] = {}
        self._taken: set[int] = set()

    def tell(self, points: Sequence[int], costs: Sequence[float]) -> None:
        """Keep what was measured, by this search or before it."""
        self._costs.update(zip(points, costs, strict=True))
        self._taken.update(points)

    def drop(self, points: Iterable[int]) -> None:
        """Leave out points that cannot be the fastest."""
        self._taken.update(points)

    def seen(self, points: Sequence[int]) -> list[Features | None]:
        """Return None for each: no model asks."""
        return [None] * len(points)

    def _take(self, points: Sequence[int]) -> list[int]:
        self._taken.update(points)
        return list(points)

    def _others(self, count: int) -> list[int]:
        """Return points at random that were not taken."""
        if len(self.space) - len(self._taken) <= 4 * count:
            every = [k for k in range(len(self.space)) if k not in self._taken]
            self.rng.shuffle(every)
            return every[:count]
        found: dict[int, None] = {}
        while len(found) < count:
            point = int(self.rng.integers(len(self.space)))
            if point not in self._taken:
                found.setdefault(point)
        return list(found)


class Random(Proposer):
    """Any point, each as likely."""

    def propose(self, count: int) -> list[int]:
        """Return points that were not proposed before."""
        return self._take(self._others(count))


class Grid(Proposer):
    """Every point, in the order of the space."""

    def propose(self, count: int) -> list[int]:
        """Return the next points."""
        left = (k for k in range(len(self.space)) if k not in self._taken)
        return self._take(list(islice(left, count)))


class Genetic(Proposer):
    """Children of the fastest points: each knob from either parent, now and then another.

    Parameters
    ----------
    space : Space
    rng : Generator
    elite : int
        Points that have children.
    mutation : float
        How likely a child moves to a neighbour.
    """

    def __init__(
        self, space: Space, rng: np.random.Generator, *, elite: int = 16, mutation: float = 0.3
    ) -> None:
        super().__init__(space, rng)
        self._elite, self._mutation = elite, mutation

    def propose(self, count: int) -> list[int]:
        """Return children that were not proposed before, and others where there are too few."""
        finite = [p for p, cost in self._costs.items() if np.isfinite(cost)]
        parents = sorted(finite, key=self._costs.__getitem__)[: self._elite]
        found: dict[int, None] = {}
        for _ in range(8 * count if len(parents) > 1 else 0):
            one, two = self.rng.choice(len(parents), 2, replace=False)
            child = self._crossed(parents[one], parents[two])
            if self.rng.random() < self._mutation:
                child = self.space.neighbour(child, self.rng)
            if child not in self._taken:
                found.setdefault(child)
            if len(found) == count:
                break
        self._take(list(found))
        return [*found, *self._take(self._others(count - len(found)))]

    def _crossed(self, one: int, two: int) -> int:
        """Return a point with each knob from either, or one of both where there is none."""
        a, b = self.space[one], self.space[two]
        mixed = {name: (a if self.rng.random() < 0.5 else b)[name] for name in a}
        child = self.space.get(mixed)
        return child if child is not None else one if self.rng.random() < 0.5 else two
