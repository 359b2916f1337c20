"""Timing calls against each other, in turn, so that what slows the machine slows all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from vdla.errors import InputError

__all__ = ["Sample", "alternate", "check_parts", "compared", "in_turn", "spread_of"]

_T = TypeVar("_T")

_WARMING_CALLS = 2
_CLOCKS_APART = 1.05
"""From where on wall and processor time are said to differ: something else ran meanwhile."""


@dataclass(frozen=True)
class Sample:
    """What one call took, on average over a few in a row.

    Attributes
    ----------
    wall, cpu : float
        Seconds on the clock, and of all threads of this process.
    """

    wall: float
    cpu: float

    def __sub__(self, other: Sample) -> Sample:
        return Sample(self.wall - other.wall, self.cpu - other.cpu)

    def __truediv__(self, count: int) -> Sample:
        return Sample(self.wall / count, self.cpu / count)


def alternate(
    calls: Sequence[Callable[[], Any]], repeats: int, least_seconds: float
) -> list[list[Sample]]:
    """Return `repeats` samples of each call, taken in turn, every other time backwards.

    Parameters
    ----------
    calls : sequence of callable
    repeats : int
    least_seconds : float
        How long a sample lasts at least: so many calls in a row.
    """
    counts = []
    for call in calls:
        for _ in range(_WARMING_CALLS):
            begin = time.perf_counter()
            call()
            took = time.perf_counter() - begin
        counts.append(max(1, round(least_seconds / max(took, 1e-9))))
    return in_turn([partial(_sample, *one) for one in zip(calls, counts, strict=True)], repeats)


def in_turn(samples: Sequence[Callable[[], _T]], repeats: int) -> list[list[_T]]:
    """Return so many samples of each kind, taken in turn, every other time backwards."""
    found: list[list[_T]] = [[] for _ in samples]
    for repeat in range(repeats):
        order = range(len(samples))
        for index in order if repeat % 2 == 0 else reversed(order):
            found[index].append(samples[index]())
    return found


def _sample(call: Callable[[], Any], count: int) -> Sample:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        call()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu) / count


def spread_of(values: Sequence[float]) -> tuple[float, float, float]:
    """Return median, lower and upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def compared(ours: Sequence[Sample], theirs: Sequence[Sample], *, threads: int) -> dict[str, Any]:
    """Return medians in milliseconds and how many times as fast ours is, sample by sample.

    The ratio is of processor time where one thread works, which a busy machine disturbs least;
    with more threads, of time on the clock.

    Parameters
    ----------
    ours, theirs : sequence of Sample
        Taken in turn.
    threads : int

    Returns
    -------
    dict
        ``milliseconds`` and ``peer_milliseconds`` on the clock of the ratio; ``ratio``, the
        median, ``ratio_low`` and ``ratio_high``, its quartiles; ``wall_milliseconds`` and
        ``peer_wall_milliseconds``, and ``busy``: whether the two clocks differ.
    """
    clock = "cpu" if threads == 1 else "wall"
    ratios = [getattr(b, clock) / getattr(a, clock) for a, b in zip(ours, theirs, strict=True)]
    ratio, low, high = spread_of(ratios)

    def median(samples: Sequence[Sample], clock: str) -> float:
        return 1e3 * float(statistics.median(getattr(sample, clock) for sample in samples))

    mine, peers = median(ours, clock), median(theirs, clock)
    wall, peers_wall = median(ours, "wall"), median(theirs, "wall")
    return {
        "milliseconds": mine,
        "peer_milliseconds": peers,
        "ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
        "clock": clock,
        "wall_milliseconds": wall,
        "peer_wall_milliseconds": peers_wall,
        "busy": wall > _CLOCKS_APART * mine or peers_wall > _CLOCKS_APART * peers,
    }


def check_parts(parts: Sequence[str], known: Iterable[str]) -> None:
    """Check that a benchmark has the parts that are asked for.

    Raises
    ------
    InputError
        There is no such part.
    """
    names = tuple(known)
    unknown = sorted(set(parts) - set(names))
    if unknown:
        raise InputError(
            f"A part of this benchmark must be one of {', '.join(names)}, not "
            f"{', '.join(unknown)}: name some of these, or none for all."
        )
