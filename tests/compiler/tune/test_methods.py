"""Methods on a space whose costs are known: none proposes twice, the guided one needs fewest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import log2

import numpy as np
import pytest

from vdla.compiler.tune.guided import Guided, Known
from vdla.compiler.tune.methods import Genetic, Grid, Method, Random
from vdla.compiler.tune.model import Ranking, Regression
from vdla.compiler.tune.space import Point, Space
from vdla.errors import InputError

SIZES = (1, 2, 4, 8, 16, 32, 64)
SPACE = Space(
    {"rows": rows, "columns": columns, "order": order, "outside": outside}
    for rows, columns, order, outside in product(SIZES, SIZES, ("ab", "ba"), (False, True))
    if rows * columns <= 512
)


def cost(point: Point) -> float:
    """Least where a tile is 16 x 8, in one order; a step away costs a tenth."""
    away = abs(log2(int(point["rows"])) - 4) + abs(log2(int(point["columns"])) - 3)
    return 1000 * 1.1**away * (1.3 if point["order"] == "ab" else 1) - 20 * bool(point["outside"])


def features(index: int) -> np.ndarray:
    point = SPACE[index]
    numbers = [log2(int(point["rows"])), log2(int(point["columns"])), point["order"] == "ba"]
    return np.array([*numbers, point["outside"]], np.float32)


def all_features(points: Sequence[int]) -> list[np.ndarray]:
    return [features(k) for k in points]


def run(method: Method, trials: int, batch: int = 8) -> list[float]:
    seen: list[int] = []
    while len(seen) < trials and (points := method.propose(min(batch, trials - len(seen)))):
        assert not {*seen} & {*points}
        assert len({*points}) == len(points)
        seen += points
        method.tell(points, [cost(SPACE[k]) for k in points])
    return [cost(SPACE[k]) for k in seen]


METHODS: dict[str, Callable[[np.random.Generator], Method]] = {
    "random": lambda rng: Random(SPACE, rng),
    "grid": lambda rng: Grid(SPACE, rng),
    "genetic": lambda rng: Genetic(SPACE, rng),
    "ranking": lambda rng: Guided(SPACE, all_features, Ranking(0), rng),
    "regression": lambda rng: Guided(SPACE, all_features, Regression(0), rng),
}


@pytest.mark.parametrize("name", ["random", "grid", "genetic"])
def test_every_point_comes_once(name: str) -> None:
    costs = run(METHODS[name](np.random.default_rng(0)), 10 * len(SPACE))
    assert sorted(costs) == sorted(cost(point) for point in SPACE)


def test_the_guided_search_finds_the_best_soonest() -> None:
    best = min(cost(point) for point in SPACE)
    first: dict[str, float] = {}
    for name, method in METHODS.items():
        if name == "grid":
            continue
        needed = []
        for seed in range(5):
            costs = run(method(np.random.default_rng(seed)), 72)
            needed.append(costs.index(best) + 1 if best in costs else 999)
        first[name] = float(np.median(needed))
    assert first["ranking"] <= 48
    assert first["ranking"] < first["random"]
    assert first["regression"] < first["random"]


def test_points_go_by_index_and_by_knobs() -> None:
    assert SPACE.knobs["order"] == ("ab", "ba")
    assert SPACE.knobs["rows"] == SIZES
    for k in (0, 17, len(SPACE) - 1):
        assert SPACE.index(SPACE[k]) == k
    with pytest.raises(InputError, match="must be one of the space's"):
        SPACE.index({"rows": 64, "columns": 64, "order": "ab", "outside": True})
    with pytest.raises(InputError, match="must have a point, and there is none"):
        Space([])
    with pytest.raises(InputError, match="must have the knobs a, not b"):
        Space([{"a": 1}, {"b": 1}])


def test_neighbours_differ_in_one_knob() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        k = int(rng.integers(len(SPACE)))
        other = SPACE.neighbour(k, rng)
        assert sum(SPACE[k][name] != SPACE[other][name] for name in SPACE.knobs) == 1


def test_failures_are_learnt_from_and_what_cannot_be_lowered_is_left_alone() -> None:
    dead = {k for k in range(len(SPACE)) if SPACE[k]["rows"] == 64}
    method = Guided(
        SPACE,
        lambda points: [None if k in dead else features(k) for k in points],
        Ranking(0),
        np.random.default_rng(0),
        explored=0.0,
    )
    first = method.propose(8)
    method.tell(first, [np.inf if SPACE[k]["order"] == "ab" else cost(SPACE[k]) for k in first])
    for _ in range(2):
        points = method.propose(8)
        assert not dead & {*points}
        method.tell(
            points, [np.inf if SPACE[k]["order"] == "ab" else cost(SPACE[k]) for k in points]
        )
    assert [SPACE[k]["order"] for k in method.propose(8)].count("ba") >= 6


def test_a_model_of_other_tasks_cannot_keep_a_search_from_what_the_prior_expects() -> None:
    rows = np.array([features(k) for k in range(len(SPACE))], np.float32)
    backwards = Known(
        rows,
        np.array([1e6 / cost(SPACE[k]) for k in range(len(SPACE))]),
        np.zeros(len(SPACE), np.int64),
    )
    best = min(range(len(SPACE)), key=lambda k: cost(SPACE[k]))
    method = Guided(
        SPACE,
        all_features,
        Ranking(0),
        np.random.default_rng(0),
        prior=lambda k: cost(SPACE[k]),
        known=backwards,
    )
    assert method.propose(8)[0] == best
    assert Guided(SPACE, all_features, Ranking(0), np.random.default_rng(0)).propose(1)
