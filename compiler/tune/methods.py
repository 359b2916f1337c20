"""Methods that propose what to measure next, without a model: the baselines of one with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from .space import Space

__all__ = ["Genetic", "Grid", "Method", "Random"]


class Method(Protocol):
    """Proposes points of a space, none twice."""

    def propose(self, count: int) -> list[int]:
        """Return at most so many points that were not proposed before; none when all were."""

    def tell(self, points: Sequence[int], costs: Sequence[float]) -> None:
        """Learn what was measured; infinity stands for a failure."""


class _Seen:
    """Keeps the order of points that were not proposed yet."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.space, self.rng = space, rng
        self.taken: set[int] = set()

    def take(self, points: Sequence[int]) -> list[int]:
        self.taken.update(points)
        return list(points)

    def others(self, count: int) -> list[int]:
        """Return points at random that were not taken."""
        left = len(self.space) - len(self.taken)
        if left <= 4 * count:
            every = [k for k in range(len(self.space)) if k not in self.taken]
            self.rng.shuffle(every)
            return every[:count]
        found: dict[int, None] = {}
        while len(found) < count:
            point = int(self.rng.integers(len(self.space)))
            if point not in self.taken:
                found.setdefault(point)
        return list(found)


class Random:
    """Any point, each as likely.

    Parameters
    ----------
    space : Space
    rng : Generator
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._seen = _Seen(space, rng)

    def propose(self, count: int) -> list[int]:
        """Return points that were not proposed before."""
        return self._seen.take(self._seen.others(count))

    def tell(self, points: Sequence[int], costs: Sequence[float]) -> None:
        """Learn nothing."""


class Grid:
    """Every point, in the order of the space.

    Parameters
    ----------
    space : Space
    """

    def __init__(self, space: Space) -> None:
        self._next, self._size = 0, len(space)

    def propose(self, count: int) -> list[int]:
        """Return the next points."""
        first = self._next
        self._next = min(first + count, self._size)
        return list(range(first, self._next))

    def tell(self, points: Sequence[int], costs: Sequence[float]) -> None:
        """Learn nothing."""


class Genetic:
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
        self._seen = _Seen(space, rng)
        self._elite, self._mutation = elite, mutation
        self._costs: dict[int, float] = {}

    def tell(self, points: Sequence[int], costs: Sequence[float]) -> None:
        """Keep what was measured."""
        self._costs.update(zip(points, costs, strict=True))

    def propose(self, count: int) -> list[int]:
        """Return children that were not proposed before, and others where there are too few."""
        rng, space = self._seen.rng, self._seen.space
        finite = [p for p, cost in self._costs.items() if np.isfinite(cost)]
        parents = sorted(finite, key=self._costs.__getitem__)[: self._elite]
        found: dict[int, None] = {}
        for _ in range(8 * count if len(parents) > 1 else 0):
            one, two = rng.choice(len(parents), 2, replace=False)
            child = self._crossed(parents[one], parents[two])
            if rng.random() < self._mutation:
                child = space.neighbour(child, rng)
            if child not in self._seen.taken:
                found.setdefault(child)
            if len(found) == count:
                break
        self._seen.take(list(found))
        return [*found, *self._seen.take(self._seen.others(count - len(found)))]

    def _crossed(self, one: int, two: int) -> int:
        """Return a point with each knob from either, or one of both where there is none."""
        rng, space = self._seen.rng, self._seen.space
        a, b = space[one], space[two]
        mixed = {name: (a if rng.random() < 0.5 else b)[name] for name in a}
        return space.get(mixed, one if rng.random() < 0.5 else two)
