"""What a worker of a pool does: candidates in a sandbox that it keeps from one to the next."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from vdla.compiler.tune.features import Features
from vdla.compiler.tune.space import Point
from vdla.errors import DeviceError

from .attempt import Measure, Outcome, features_of, guarded, prepare
from .sandbox import Sandbox

__all__ = ["attempt_here", "build_here", "end_here", "features_here", "run_here"]


class _Place:
    """A worker's thread: its sandbox, whose candidate was in it last, and who opened a device."""

    def __init__(self) -> None:
        self.sandbox = Sandbox()
        self.owner = self.prepared = ""


_own = threading.local()
_places: list[_Place] = []


def attempt_here(
    owner: str, measure: Measure, template: bytes, point: Point, to_beat: float, seconds: float
) -> Outcome:
    """Measure a candidate; see `attempt`.

    Parameters
    ----------
    owner : str
        The pool, for `end_here`.
    measure : callable
    template : bytes
        Pickled: only the sandbox needs what it is made of.
    point : mapping
    to_beat, seconds : float

    Raises
    ------
    DeviceError
        This worker may not start processes, or what is to be measured on cannot be used.
    """
    with _used(owner) as place:
        _prepare(place, owner, measure)
        return _outcome(
            guarded(place.sandbox, _measure, measure, template, point, to_beat, seconds=seconds)
        )


def build_here(owner: str, measure: Any, template: bytes, point: Point, seconds: float) -> Any:
    """Return what a candidate builds to, for another worker, or the outcome of its failure."""
    with _used(owner) as place:
        return guarded(place.sandbox, _build, measure, template, point, seconds=seconds)


def run_here(owner: str, measure: Any, built: Any, to_beat: float, seconds: float) -> Outcome:
    """Measure what another worker built; a failure is handed on."""
    if isinstance(built, Outcome):
        return built
    with _used(owner) as place:
        _prepare(place, owner, measure)
        return _outcome(guarded(place.sandbox, measure.run, built, to_beat, seconds=seconds))


def features_here(template: bytes, points: Sequence[Point]) -> list[Features | None]:
    """Return what a model sees of points, None for each that cannot be lowered."""
    return features_of(_template(template), points)


def end_here(owner: str) -> None:
    """End the processes that a pool used last on this worker: they may hold a device."""
    for place in _places:
        if place.owner == owner:
            place.sandbox.kill()


@contextmanager
def _used(owner: str) -> Iterator[_Place]:
    """Yield the place of this thread, for a pool's candidate."""
    if multiprocessing.current_process().daemon:
        raise DeviceError(
            "A worker that tunes must be able to start processes, and under a nanny of Dask's it "
            "may not: start it with `dask worker ADDRESS --nthreads 1 --no-nanny`"
        )
    if not hasattr(_own, "place"):
        _own.place = _Place()
        _places.append(_own.place)
    place: _Place = _own.place
    place.owner = owner
    yield place


def _prepare(place: _Place, owner: str, measure: Any) -> None:
    if place.prepared != owner:
        prepare(place.sandbox, measure)
        place.prepared = owner


def _outcome(found: Any) -> Outcome:
    return found if isinstance(found, Outcome) else Outcome(float(found))


def _measure(measure: Measure, template: bytes, point: Point, to_beat: float) -> float:
    return measure(_template(template), point, to_beat)


def _build(measure: Any, template: bytes, point: Point) -> Any:
    return measure.build(_template(template), point)


@lru_cache(maxsize=4)
def _template(pickled: bytes) -> Any:
    return pickle.loads(pickled)
