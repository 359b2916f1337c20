"""What a worker of a pool does: candidates in a sandbox that it keeps from one to the next."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from vdla.compiler.tune.space import Point
from vdla.errors import DeviceError

from .attempt import Measure, Outcome, attempt, guarded
from .sandbox import Sandbox

__all__ = ["attempt_here", "build_here", "end_here", "run_here"]


class _Place:
    """A worker's thread: its sandbox, and whose candidate is in it."""

    def __init__(self) -> None:
        self.sandbox = Sandbox()
        self.owner: str | None = None


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
        Pickled, so that any worker can hand it on.
    point : mapping
    to_beat, seconds : float

    Raises
    ------
    DeviceError
        This worker may not start processes.
    """
    with _used(owner) as sandbox:
        return attempt(sandbox, measure, _template(template), point, to_beat, seconds)


def build_here(owner: str, measure: Any, template: bytes, point: Point, seconds: float) -> Any:
    """Return what a candidate builds to, for another worker, or the outcome of its failure."""
    with _used(owner) as sandbox:
        return guarded(sandbox, measure.build, _template(template), point, seconds=seconds)


def run_here(owner: str, measure: Any, built: Any, to_beat: float, seconds: float) -> Outcome:
    """Measure what another worker built; a failure is handed on."""
    if isinstance(built, Outcome):
        return built
    with _used(owner) as sandbox:
        found = guarded(sandbox, measure.run, built, to_beat, seconds=seconds)
    return found if isinstance(found, Outcome) else Outcome(float(found))


def end_here(owner: str) -> None:
    """End what a pool has running on this worker; sandboxes of others, and idle ones, stay."""
    for place in _places:
        if place.owner == owner:
            place.sandbox.kill()


@contextmanager
def _used(owner: str) -> Iterator[Sandbox]:
    """Yield the sandbox of this thread, where a candidate of a pool is to be."""
    if multiprocessing.current_process().daemon:
        raise DeviceError(
            "A worker that tunes must be able to start processes, and under a nanny of Dask's it "
            "may not: start it with `dask worker ADDRESS --nthreads 1 --no-nanny`"
        )
    if not hasattr(_own, "place"):
        _own.place = _Place()
        _places.append(_own.place)
    _own.place.owner = owner
    try:
        yield _own.place.sandbox
    finally:
        _own.place.owner = None


@lru_cache(maxsize=16)
def _template(pickled: bytes) -> Any:
    return pickle.loads(pickled)
