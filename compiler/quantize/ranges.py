"""The range of each activation, from the values it takes on calibration images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import frexp, ldexp
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph

from .checks import Samples, check_finite
from .evaluate import Tell, activations

__all__ = ["CALIBRATIONS", "DEFAULT_PERCENTILE", "Histogram", "Range", "find_ranges"]

Array = npt.NDArray[Any]

DEFAULT_PERCENTILE = 99.99
_BINS = 4096
_LEVELS = 256
_VALUES_A_BIN = 64
"""What a histogram needs on average to tell of a distribution."""
_CANDIDATES = 128
"""Ranges that `entropy` tries."""
_RANGE_BITS = 10
"""A range is rounded outwards to this many significant bits, 0.1 % at most."""


class Range(NamedTuple):
    """The reals that the 256 integers span; 0 is among them."""

    low: float
    high: float


class Histogram(NamedTuple):
    """How often a tensor took values, in bins of one width from `low` to `high`."""

    low: float
    high: float
    counts: npt.NDArray[np.int64]


def find_ranges(
    graph: Graph,
    samples: Samples,
    calibration: str,
    percentile: float,
    tell: Tell,
) -> dict[str, Range]:
    """Return the range of every float activation.

    Parameters
    ----------
    graph : Graph
        Float.
    samples : dict of str to array
    calibration : str
        A key of `CALIBRATIONS`.
    percentile : float
    tell : callable

    Raises
    ------
    ModelError
        An activation is not finite.
    """
    extremes: dict[str, Range] = {}
    for values in activations(graph, samples, "ranges", tell):
        check_finite(graph, values)
        for name, array in values.items():
            if array.dtype.kind == "f":
                low, high = extremes.get(name, Range(0.0, 0.0))
                extremes[name] = Range(min(low, array.min()), max(high, array.max()))
    ranges = {name: _rounded(limits) for name, limits in extremes.items()}
    choose = CALIBRATIONS[calibration]
    if choose is None:
        return ranges
    counts = {name: np.zeros(_BINS, np.int64) for name in ranges}
    for values in activations(graph, samples, "histograms", tell):
        for name, limits in ranges.items():
            if limits.low < limits.high:
                counts[name] += np.histogram(values[name], _BINS, limits)[0]
    chosen = {}
    for name, limits in ranges.items():
        if limits.low < limits.high:
            limits = _rounded(choose(Histogram(*limits, counts[name]), percentile))
        chosen[name] = limits
    return chosen


def _rounded(limits: Range) -> Range:
    return Range(-_outwards(-limits.low), _outwards(limits.high))


def _outwards(size: float) -> float:
    fraction, exponent = frexp(size)
    return ldexp(float(np.ceil(fraction * 2**_RANGE_BITS)), exponent - _RANGE_BITS)


def _percentile(histogram: Histogram, percentile: float) -> Range:
    """Cut the same share off either end, but nothing off an end at zero."""
    low, high, counts = histogram
    edges = np.linspace(low, high, counts.size + 1)
    below = np.concatenate([[0.0], np.cumsum(counts / counts.sum())])
    tail = 1 - percentile / 100
    ends = np.interp([tail, 1 - tail], below, edges)
    return Range(min(0.0, ends[0]), max(0.0, ends[1]))


def _entropy(histogram: Histogram, percentile: float) -> Range:
    """Choose the range whose 256 levels tell least different a distribution.

    A candidate cuts both ends at one size. The distribution p is the histogram with what lies
    outside moved onto the ends; q is the histogram inside, every level's count spread evenly over
    those of its bins that hold anything. Source: Szymon Migacz, "8-bit inference with TensorRT",
    GTC 2017, there for symmetric codes. Zero always has a level of its own, so how often a ReLU
    gives it says nothing of a range: its bin counts as the one beside it. Of a tensor with few
    values the bins are wider, down to a level each, where nothing is cut: distances between
    distributions of single values would favour the narrowest range.
    """
    low, high, counts = histogram
    while counts.size > _LEVELS and counts.sum() < _VALUES_A_BIN * counts.size:
        counts = counts.reshape(-1, 2).sum(axis=1)
    edges = np.linspace(low, high, counts.size + 1)
    zero = min(int(np.searchsorted(edges, 0.0, "right")) - 1, counts.size - 1)
    counts = counts.copy()
    counts[zero] = counts[zero + 1] if zero + 1 < counts.size else counts[zero - 1]
    best, least = Range(low, high), np.inf
    for size in np.linspace(1, _LEVELS / counts.size, _CANDIDATES) * max(-low, high):
        first = int(np.searchsorted(edges, max(low, -size), "right")) - 1
        last = int(np.searchsorted(edges, min(high, size), "left"))
        if last - first < _LEVELS:
            break
        divergence = _divergence(counts, first, last)
        if divergence < least:
            limits = Range(min(0.0, float(edges[first])), max(0.0, float(edges[last])))
            best, least = limits, divergence
    return best


def _divergence(counts: npt.NDArray[np.int64], first: int, last: int) -> float:
    inside = counts[first:last].astype(np.float64)
    p = inside.copy()
    p[0] += counts[:first].sum()
    p[-1] += counts[last:].sum()
    starts = np.arange(_LEVELS) * inside.size // _LEVELS
    held = inside > 0
    filled = np.maximum(np.add.reduceat(held.astype(np.int64), starts), 1)
    share = np.add.reduceat(inside, starts) / filled
    q = np.where(held, np.repeat(share, np.diff([*starts, inside.size])), 0)
    if not q.sum():
        return float("inf")
    p, q = p / p.sum(), q / q.sum()
    # A bin that only the cut values fill has no q; it counts as one value in q's stead.
    floor = 1 / counts.sum()
    some = p > 0
    return float((p[some] * np.log(p[some] / np.maximum(q[some], floor))).sum())


CALIBRATIONS: Mapping[str, Callable[[Histogram, float], Range] | None] = {
    "minmax": None,
    "percentile": _percentile,
    "entropy": _entropy,
}
"""``(histogram, percentile) -> range`` by name; None takes all that was seen."""
