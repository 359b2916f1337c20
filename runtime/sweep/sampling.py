"""The points of a grid or of a sample, in an order that depends on the specification alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from .axes import Span
from .points import Point
from .spec import Spec

__all__ = ["points_of", "settings_of"]


def points_of(spec: Spec) -> list[Point]:
    """Return the points of a grid or a sample: every network on every configuration drawn."""
    points = [
        Point.of(network, base, settings, check=spec.check, seed=spec.seed)
        for network in spec.networks
        for base in spec.configs
        for settings in _settings(spec)
    ]
    unique: dict[str, Point] = {}
    for point in points:  # a sample may draw one twice, and two bases may become one
        unique.setdefault(point.key(point.network), point)
    return list(unique.values())


def settings_of(spec: Spec, parts: Mapping[str, float]) -> dict[str, Any]:
    """Return what the axes set at parts of the way along each, 0 to 1."""
    found: dict[str, Any] = {}
    for axis in spec.axes:
        found |= axis.at(parts[axis.name])
    return found


def _settings(spec: Spec) -> Iterator[dict[str, Any]]:
    if spec.sample is None:
        choices = [() if isinstance(axis.values, Span) else axis.values for axis in spec.axes]
        for chosen in product(*choices):
            yield {name: value for part in chosen for name, value in part.items()}
        return
    for row in _draw(spec):
        parts = {axis.name: float(part) for axis, part in zip(spec.axes, row, strict=True)}
        yield settings_of(spec, parts)


def _draw(spec: Spec) -> np.ndarray[Any, Any]:
    """Return parts of the way, (points, axes)."""
    if not spec.axes:
        return np.zeros((1, 0))
    if spec.sample == "random":
        return np.random.default_rng(spec.seed).random((spec.count, len(spec.axes)))
    from scipy.stats import qmc

    sampler = qmc.LatinHypercube(len(spec.axes), rng=np.random.default_rng(spec.seed))
    drawn: np.ndarray[Any, Any] = sampler.random(spec.count)
    return drawn
