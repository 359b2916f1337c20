"""How many times the time of another kernel one takes: samples in turn, outliers left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

__all__ = ["kept", "ratio"]

_FEW, _MANY = 3, 31
"""Samples of a candidate beside the reference: of one that is clearly behind, and of the best."""
_BEHIND = 1.25
"""A candidate whose fastest sample is so many times the best's is not sampled any further."""
_LOOKS = {5: 3.0, 11: 2.0}
"""Samples after which a candidate that is surely behind is sampled no further, and the standard
errors that then lie between its median and the best's."""
_OF_MEDIAN = 1.2533
"""A median's standard error in those of a mean, of a normal distribution: sqrt(pi / 2)."""
_APART = 1.5
"""Interquartile ranges beyond the quartiles from which a sample is discarded (Tukey's fences)."""


def ratio(candidate: Callable[[], float], reference: Callable[[], float], to_beat: float) -> float:
    """Return the median of how many times the reference's time a candidate takes.

    Parameters
    ----------
    candidate, reference : callable
        Each runs a kernel and returns the time that it took, of any unit.
    to_beat : float
        The least ratio so far: what is clearly slower is sampled less.
    """
    ratios: list[float] = []
    while len(ratios) < _MANY:
        order = (candidate, reference) if len(ratios) % 2 else (reference, candidate)
        taken = {one: one() for one in order}
        ratios.append(taken[candidate] / taken[reference])
        if len(ratios) == _FEW and min(ratios) > _BEHIND * to_beat:
            break
        if (sure := _LOOKS.get(len(ratios))) and _behind(kept(ratios), to_beat, sure):
            break
    return float(np.median(kept(ratios)))


def kept(samples: Sequence[float]) -> NDArray[np.float64]:
    """Return samples less those far outside the middle half of them."""
    values: NDArray[np.float64] = np.asarray(samples, np.float64)
    low, high = np.quantile(values, (0.25, 0.75))
    reach = _APART * (high - low)
    inside: NDArray[np.float64] = values[(values >= low - reach) & (values <= high + reach)]
    return inside


def _behind(ratios: NDArray[np.float64], to_beat: float, errors: float) -> bool:
    """Tell whether a median lies so many of its standard errors above what is to beat."""
    error = _OF_MEDIAN * ratios.std(ddof=1) / sqrt(len(ratios))
    return bool(np.median(ratios) - errors * error > to_beat)
