"""Models that learn, from what was measured, which schedules are fast: gradient-boosted trees."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["CostModel", "Ranking", "Regression"]

Features = NDArray[np.float32]
Scores = NDArray[np.float64]


class CostModel(Protocol):
    """Predicts from features; what is better has the lower score."""

    def fit(self, features: Features, costs: Scores, groups: NDArray[np.int64]) -> None:
        """Learn from (n, f) features and n costs; only costs of one group are compared."""

    def predict(self, features: Features) -> Scores:
        """Return (members, n) scores, of each member of an ensemble."""


_TREES = {"max_depth": 5, "eta": 0.15, "min_child_weight": 1.0, "verbosity": 0, "nthread": 1}
_ROUNDS = 60
_MEMBERS = 3
_SHARE = 0.8
"""Of the rows and columns that each tree of a member sees: members differ by chance alone."""


class _Trees:
    """An ensemble that differs in its seeds."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._members: list[Any] = []

    def _train(self, data: Any, objective: dict[str, Any]) -> None:
        import xgboost

        settings = _TREES | objective | {"subsample": _SHARE, "colsample_bytree": _SHARE}
        self._members = [
            xgboost.train(settings | {"seed": self._seed + k}, data, _ROUNDS)
            for k in range(_MEMBERS)
        ]

    def predict(self, features: Features) -> Scores:
        """Return (members, n) scores; what is better has the lower one."""
        import xgboost

        data = xgboost.DMatrix(features)
        return np.array([member.predict(data) for member in self._members], np.float64)


class Regression(_Trees):
    """Predicts the logarithm of a cost, against the least of its group."""

    def fit(self, features: Features, costs: Scores, groups: NDArray[np.int64]) -> None:
        """Learn from (n, f) features and n costs."""
        import xgboost

        targets = np.log(costs)
        for group in np.unique(groups):
            targets[groups == group] -= targets[groups == group].min()
        self._train(xgboost.DMatrix(features, targets), {"objective": "reg:squarederror"})


class Ranking(_Trees):
    """Predicts the order of costs within a group: what a search needs, and no more.

    Source: Chen et al., Learning to Optimize Tensor Programs (2018), section 3.2, the rank
    objective.
    """

    def fit(self, features: Features, costs: Scores, groups: NDArray[np.int64]) -> None:
        """Learn from (n, f) features and n costs."""
        import xgboost

        order = np.argsort(groups, kind="stable")
        features, costs, groups = features[order], costs[order], groups[order]
        _, sizes = np.unique(groups, return_counts=True)
        relevance = np.concatenate([_relevance(c) for c in np.split(costs, np.cumsum(sizes)[:-1])])
        data = xgboost.DMatrix(features, relevance)
        data.set_group(sizes)
        self._train(data, {"objective": "rank:pairwise", "lambdarank_pair_method": "mean"})

    def predict(self, features: Features) -> Scores:
        """Return (members, n) scores; what is better has the lower one."""
        return -super().predict(features)


def _relevance(costs: Scores) -> Scores:
    """Return how much of the best's speed each has, in 32 steps: close ones need no order."""
    relevance: Scores = np.round(31 * costs.min() / costs)
    return relevance
