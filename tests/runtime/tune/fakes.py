"""Templates whose costs are formulas, and who measures them without a process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vdla.compiler.tune.features import NAMES, Features
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import Task
from vdla.runtime.tune.attempt import Outcome

__all__ = ["Bowl", "Here", "cost_of"]


@dataclass(frozen=True)
class Bowl:
    """A template of two knobs, least at (`least`, `least`), whose floor is half its cost."""

    least: int = 7
    size: int = 12
    unit = "cycles"

    @property
    def task(self) -> Task:
        return Task("bowl", 1, {"least": self.least, "size": self.size}, {"kind": "test"})

    @property
    def space(self) -> Space:
        return Space({"x": x, "y": y} for x in range(self.size) for y in range(self.size))

    def prior(self, point: Point) -> float:
        return abs(int(point["x"]) - self.least) + 1.0

    def floor(self, point: Point) -> float:
        return cost_of(self, point) / 2

    def features(self, point: Point) -> Features | None:
        found = np.zeros(len(NAMES), np.float32)
        found[0] = abs(int(point["x"]) - self.least)
        found[1] = abs(int(point["y"]) - self.least)
        return found


def cost_of(template: Bowl, point: Point) -> float:
    x, y = int(point["x"]) - template.least, int(point["y"]) - template.least
    return float(100 + x * x + 3 * y * y)


@dataclass
class Here:
    """Measures in this process, and remembers what it was asked."""

    stop_after: int | None = None
    backwards: bool = False
    asked: list[Point] = field(default_factory=list)

    def run(
        self, template: Any, points: Sequence[Point], to_beat: float
    ) -> Iterator[tuple[int, Outcome]]:
        order = list(enumerate(points))
        for k, point in reversed(order) if self.backwards else order:
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(point)
            yield k, Outcome(cost_of(template, point))

    def features(self, template: Any, points: Sequence[Point]) -> list[Features | None]:
        return [template.features(point) for point in points]
