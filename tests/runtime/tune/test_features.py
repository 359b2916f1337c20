"""Whoever measures candidates sees them as the template does, whatever becomes of a process."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.runtime.tune.test_devices import some, template
from tests.runtime.tune.test_search import Squares, square
from vdla.compiler.tune.features import Features
from vdla.compiler.tune.kept import MOST_KEPT, kept
from vdla.compiler.tune.space import Point
from vdla.runtime.tune.accelerator import cycles
from vdla.runtime.tune.attempt import share_out
from vdla.runtime.tune.attempts import Attempts
from vdla.runtime.tune.pool import Pool


@dataclass(frozen=True)
class Fatal(Squares):
    """Ends any process but one that looks at a point of it; odd points cannot be lowered."""

    process: int = 0

    def features(self, point: Point) -> Features | None:
        if os.getpid() != self.process:
            os._exit(1)
        k = int(point["k"])
        return None if k % 2 else np.array([k], np.float32)


@pytest.mark.parametrize("kind", [Attempts, Pool])
def test_processes_see_what_the_template_does(kind: Any) -> None:
    made = template()
    points = some(made, 7)
    with kind(cycles, workers=2, seconds=60.0) as workers:
        found = workers.features(made, points)
        assert workers.features(made, []) == []
    assert [list(row) for row in found] == [list(made.features(point)) for point in points]


def test_what_ends_a_process_is_looked_at_here() -> None:
    points = [{"k": k} for k in range(5)]
    with Attempts(square, workers=2, seconds=1.0) as attempts:
        found = attempts.features(Fatal(os.getpid()), points)
        assert [k for k, row in enumerate(found) if row is None] == [1, 3]
        assert dict(attempts.run(Squares(), points, 0.0)).keys() == set(range(5))


@pytest.mark.parametrize("shares", [1, 2, 3, 9])
def test_shares_come_back_in_order(shares: int) -> None:
    asked: list[int] = []

    def work(parts: list[Any]) -> list[Any]:
        asked.extend(map(len, parts))
        return [[np.float32(point["k"]) for point in part] for part in parts]

    assert share_out([{"k": k} for k in range(5)], shares, work) == [0, 1, 2, 3, 4]
    assert len(asked) == min(shares, 5)
    assert max(asked) - min(asked) <= 1


def test_a_template_is_made_once_a_process_and_the_oldest_are_forgotten() -> None:
    made = template()
    there = pickle.loads(pickle.dumps(made))
    assert pickle.loads(pickle.dumps(made)) is there
    assert there.task == made.task
    other = pickle.loads(pickle.dumps(replace(made, vthreads=1)))
    assert other is not there
    for k in range(MOST_KEPT - 1):
        kept(str(k), list)
    assert pickle.loads(pickle.dumps(made)) is not there
