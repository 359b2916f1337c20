"""Features are computed once a point, and who measures sees the template itself."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.tune.features import NAMES, Features
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import Task
from vdla.runtime.tune.remembered import Remembered


@dataclass
class Line:
    """A template that counts who asks for features; point 2 has none."""

    asked: list[int] = field(default_factory=list)
    space: Space = field(default_factory=lambda: Space({"k": k} for k in range(4)))
    unit: str = "seconds"

    @property
    def task(self) -> Task:
        return Task("line", 1, {}, {"kind": "test"})

    def prior(self, point: Point) -> float:
        return 2.0 * int(point["k"])

    def floor(self, point: Point) -> float:
        return 0.5 * int(point["k"])

    def features(self, point: Point) -> Features | None:
        k = int(point["k"])
        self.asked.append(k)
        return None if k == 2 else np.full(len(NAMES), k, np.float32)


def test_each_point_is_asked_for_once() -> None:
    line = Line()
    once = Remembered(line)
    for k in (1, 2, 1, 2, 3, 1):
        found = once.features({"k": k})
        assert (found is None) == (k == 2)
        if found is not None:
            assert found.tolist() == [k] * len(NAMES)
    assert line.asked == [1, 2, 3]


def test_all_else_is_the_templates() -> None:
    line = Line()
    once = Remembered(line)
    assert (once.task, once.space, once.unit) == (line.task, line.space, "seconds")
    assert (once.prior({"k": 3}), once.floor({"k": 3})) == (6.0, 1.5)


def test_it_is_sent_as_the_template() -> None:
    sent = pickle.loads(pickle.dumps(Remembered(Line())))
    assert type(sent) is Line
