"""Search that a cost model guides: simulated annealing on what it predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from .methods import Proposer
from .model import CostModel, Features
from .space import Space

__all__ = ["Guided", "Known"]

_CHAINS, _STEPS = 16, 2
_HOT, _COLD = 1.0, 0.1
"""Temperatures of a round, in spreads of the scores of what was measured."""
_DOUBT = 0.5
"""Spreads of the ensemble by which a point may be better than its mean says."""
_LEAST = 1e-12
"""A cost that logarithms and ratios can be taken of."""
_WORST = 1e3
"""A score beyond any that a model gives."""
_ALIKE = 0.3
"""What a point loses, in spreads, for each share of its knobs that the batch has already."""


@dataclass(frozen=True)
class Known:
    """Measurements of other tasks, to begin with.

    Attributes
    ----------
    features : array
        (n, f).
    costs : array
        n, comparable within a group.
    groups : array
        Of n integers: the task of each.
    """

    features: Features
    costs: NDArray[np.float64]
    groups: NDArray[np.int64]


class Guided(Proposer):
    """Measures where a model expects the fastest.

    Chains of annealing go on from round to round; the best of the points that they have met are
    chosen for a batch, less what they have in common with those chosen before, and a share by
    chance. The first of each batch of several is what the prior expects the fastest of the points
    left: no model, of this task or of others, can keep a search from where the prior is right.

    Parameters
    ----------
    space : Space
    featurize : callable
        Features of points, None for each that cannot be lowered.
    model : CostModel
    rng : Generator
    prior : callable, optional
        An estimate of a point's cost: the first proposals.
    known : Known, optional
        Measurements of other tasks.
    explored : float
        Share of a batch that is chosen by chance.
    """

    def __init__(
        self,
        space: Space,
        featurize: Callable[[Sequence[int]], Sequence[Features | None]],
        model: CostModel,
        rng: np.random.Generator,
        *,
        prior: Callable[[int], float] | None = None,
        known: Known | None = None,
        explored: float = 0.05,
    ) -> None:
        super().__init__(space, rng)
        self._featurize, self._model = featurize, model
        self._known, self._explored = known, explored
        self._features: dict[int, Features | None] = {}
        self._scores: dict[int, float] = {}
        self._order = [] if prior is None else sorted(range(len(space)), key=prior)
        self._chains: list[int] = []

    def propose(self, count: int) -> list[int]:
        """Return points that were not proposed before."""
        if len(self._costs) < count and self._known is None:
            return self._first(count)
        self._fit()
        met = self._anneal()
        chance = int(self.rng.binomial(count, self._explored))
        expected = self._estimated(1) if count > 1 else []
        met = [k for k in met if k not in self._taken]
        chosen = self._take(self._batch(met, count - chance - len(expected)))
        self.predicted = self._expected([*expected, *chosen])
        rest = count - len(expected) - len(chosen)
        return [*expected, *chosen, *self._take(self._others(rest))]

    def seen(self, points: Sequence[int]) -> list[Features | None]:
        """Return the features of points."""
        new = [k for k in dict.fromkeys(points) if k not in self._features]
        if new:
            self._features.update(zip(new, self._featurize(new), strict=True))
        return [self._features[k] for k in points]

    def _first(self, count: int) -> list[int]:
        """Return half a batch that the prior expects the fastest, and others."""
        best = self._estimated(count // 2)
        return [*best, *self._take(self._others(count - len(best)))]

    def _estimated(self, count: int) -> list[int]:
        """Return the points that the prior expects the fastest of those left."""
        rest = (k for k in self._order if k not in self._taken)
        return self._take(list(islice(rest, count)))

    def _fit(self) -> None:
        known = list(self._costs)
        seen = dict(zip(known, self.seen(known), strict=True))
        points = [k for k in known if seen[k] is not None]
        costs = np.array([self._costs[k] for k in points])
        worst = costs[np.isfinite(costs)].max(initial=1.0)
        costs = np.maximum(np.where(np.isfinite(costs), costs, 4 * worst), _LEAST)
        groups = np.zeros(len(points), np.int64)
        rows = np.array([seen[k] for k in points], np.float32)
        if self._known is not None:
            there = self._known
            rows = np.concatenate([there.features, *([rows] if len(points) else [])])
            costs = np.concatenate([there.costs, costs])
            groups = np.concatenate([there.groups + 1, groups])
        self._model.fit(rows, costs, groups)
        self._scores.clear()

    def _anneal(self) -> list[int]:
        """Move the chains on, and return all points that they meet."""
        rng, space = self.rng, self.space
        starts = sorted(self._costs, key=self._costs.__getitem__)[: _CHAINS // 3]
        if not self._chains:
            self._chains = [*self._order[: _CHAINS // 3], *self._others(_CHAINS)][:_CHAINS]
        self._chains[: len(starts)] = starts  # some go on from the best that is known
        chains = list(self._chains)
        scores = self._score(chains)
        spread = _spread(scores)
        met = set(chains)
        for temperature in np.geomspace(_HOT, _COLD, _STEPS):
            moved = [space.neighbour(one, rng) for one in chains]
            new = self._score(moved)
            met.update(moved)
            better = np.exp(np.minimum(0, (scores - new) / (temperature * spread)))
            taken = rng.random(len(chains)) < better
            chains = [m if t else c for m, c, t in zip(moved, chains, taken, strict=True)]
            scores = np.where(taken, new, scores)
        self._chains = chains
        left = [k for k in met if k not in self._taken]
        return [k for k, found in zip(left, self.seen(left), strict=True) if found is not None]

    def _batch(self, met: Sequence[int], count: int) -> list[int]:
        """Choose points one by one, each the best less what it shares with those before it."""
        if not met:
            return []
        points = np.array(sorted(met))
        scores = self._score(points.tolist())
        spread = _spread(scores)
        choices = self.space.choices[points]
        chosen: list[int] = []
        shared = np.zeros(len(points))
        for _ in range(min(count, len(points))):
            value = scores + _ALIKE * spread * shared
            value[[int(np.searchsorted(points, one)) for one in chosen]] = np.inf
            best = int(np.argmin(value))
            chosen.append(int(points[best]))
            shared = np.maximum(shared, (choices == choices[best]).mean(axis=1))
        return chosen

    def _expected(self, chosen: Sequence[int]) -> float | None:
        """Return the cost of the best of some points, by the costs of those that score alike."""
        known = [k for k, cost in self._costs.items() if np.isfinite(cost)]
        if not known or not chosen:
            return None
        costs = np.sort([self._costs[k] for k in known])
        return float(np.interp(self._score(chosen).min(), np.sort(self._score(known)), costs))

    def _score(self, points: Sequence[int]) -> NDArray[np.float64]:
        """Return what the model hopes of points; the worst for those that cannot be lowered."""
        new = [k for k in dict.fromkeys(points) if k not in self._scores]
        seen = {k: row for k, row in zip(new, self.seen(new), strict=True) if row is not None}
        self._scores.update(dict.fromkeys(new, _WORST))
        if seen:
            members = self._model.predict(np.array(list(seen.values()), np.float32))
            hoped = members.mean(axis=0) - _DOUBT * members.std(axis=0)
            self._scores.update(zip(seen, hoped.tolist(), strict=True))
        return np.array([self._scores[k] for k in points])


def _spread(scores: NDArray[np.float64]) -> float:
    return max(float(np.std(scores[scores < _WORST])) if (scores < _WORST).any() else 0.0, 1e-9)
