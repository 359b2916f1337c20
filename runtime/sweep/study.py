"""An Optuna study: what to try next is learnt from what was tried."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .axes import Axis, Span
from .points import Point
from .spec import MAXIMIZED, Spec

if TYPE_CHECKING:
    import optuna

__all__ = ["search"]

_CONFIG = "config"
Rows = Sequence[Mapping[str, Any]]


def search(spec: Spec, evaluate: Callable[[Sequence[Point]], Rows]) -> list[Point]:
    """Return the points of every trial, in order.

    Trials are proposed ``together`` at a time and told in order, so that the study depends on the
    specification alone: neither on who worked how fast, nor on an interruption.

    Parameters
    ----------
    spec : Spec
        With one network.
    evaluate : callable
        Returns the table's row of each point.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=spec.seed, constant_liar=True)
    kinds = optuna.study.StudyDirection
    directions = [kinds.MAXIMIZE if n in MAXIMIZED else kinds.MINIMIZE for n in spec.objectives]
    study = optuna.create_study(directions=directions, sampler=sampler)
    space = _space(spec)
    points: list[Point] = []
    while len(points) < spec.count:
        count = min(spec.together, spec.count - len(points))
        trials = [study.ask(space) for _ in range(count)]
        proposed = [_point(spec, trial.params) for trial in trials]
        for trial, row in zip(trials, evaluate(proposed), strict=True):
            values = [row.get(name) for name in spec.objectives]
            if row["status"] != "ok" or any(value is None for value in values):
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, [float(value) for value in values])  # type: ignore[arg-type]
        points += proposed
    return points


def _space(spec: Spec) -> dict[str, optuna.distributions.BaseDistribution]:
    space = {axis.name: _distribution(axis) for axis in spec.axes}
    if len(spec.configs) > 1:
        space[_CONFIG] = _categories(len(spec.configs))
    return space


def _distribution(axis: Axis) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import FloatDistribution, IntDistribution

    if isinstance(axis.values, Span):
        if axis.values.whole:
            return IntDistribution(int(axis.values.low), int(axis.values.high))
        return FloatDistribution(axis.values.low, axis.values.high)
    numbers = [value.get(axis.name) for value in axis.values]
    if all(type(number) in (int, float) for number in numbers):  # in order: neighbours are alike
        return IntDistribution(0, len(numbers) - 1)
    return _categories(len(numbers))


def _categories(count: int) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution

    return CategoricalDistribution(range(count))


def _point(spec: Spec, params: Mapping[str, Any]) -> Point:
    settings: dict[str, Any] = {}
    for axis in spec.axes:
        chosen = params[axis.name]
        if isinstance(axis.values, Span):
            settings[axis.name] = chosen
        else:
            settings |= axis.values[chosen]
    base = spec.configs[params.get(_CONFIG, 0)]
    (network,) = spec.networks
    return Point.of(network, base, settings, check=spec.check, seed=spec.seed)
