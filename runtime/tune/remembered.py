"""A template whose features are computed once, for those who search one task again and again."""

from __future__ import annotations

from typing import Any

from vdla.compiler.tune.features import Features
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import Task

from .search import Template

__all__ = ["Remembered"]


class Remembered:
    """A template that remembers the features of its points: they take longer than a search.

    Where candidates are attempted it arrives as the template that it stands for.

    Parameters
    ----------
    template : Template
    """

    def __init__(self, template: Template) -> None:
        self._template = template
        self._features: dict[int, Features | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._template,)

    @property
    def task(self) -> Task:
        """The template's."""
        return self._template.task

    @property
    def space(self) -> Space:
        """The template's."""
        return self._template.space

    @property
    def unit(self) -> str:
        """The template's."""
        return self._template.unit

    def prior(self, point: Point) -> float:
        """Return the template's estimate of a point's cost."""
        return self._template.prior(point)

    def floor(self, point: Point) -> float:
        """Return what the template knows that a point's cost cannot go below."""
        return self._template.floor(point)

    def features(self, point: Point) -> Features | None:
        """Return what a model sees of a point, None where it cannot be lowered."""
        index = self.space.index(point)
        if index not in self._features:
            self._features[index] = self._template.features(point)
        return self._features[index]


def _itself(template: Template) -> Template:
    return template
