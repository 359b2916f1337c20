"""Who attempts candidates: processes of this machine, each of which may crash or hang."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from vdla.compiler.tune.space import Point

from .attempt import Measure, Outcome, attempt, prepare
from .sandbox import Sandbox

__all__ = ["Attempts"]


class Attempts:
    """Attempts candidates on several processes of this machine.

    Parameters
    ----------
    measure : callable
    workers : int
    seconds : float
        Longest time of a candidate, building included.
    """

    def __init__(self, measure: Measure, workers: int, seconds: float) -> None:
        self._measure, self._seconds, self.workers = measure, seconds, workers
        self._threads = ThreadPoolExecutor(workers)
        self._own = threading.local()
        self._sandboxes: list[Sandbox] = []

    def __enter__(self) -> Attempts:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(
        self, template: Any, points: Sequence[Point], to_beat: float
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the place of each point, and what became of it, as they are done.

        Parameters
        ----------
        template : object
        points : sequence of mapping
        to_beat : float
            The least cost so far: values are checked of what is faster.
        """
        sent = {
            self._threads.submit(self._attempt, template, point, to_beat): k
            for k, point in enumerate(points)
        }
        try:
            for done in as_completed(sent):
                yield sent[done], done.result()
        finally:
            for one in sent:
                one.cancel()

    def close(self) -> None:
        """End the processes, whatever they are at."""
        self._threads.shutdown(wait=False, cancel_futures=True)  # before: none starts another
        for sandbox in self._sandboxes:
            sandbox.kill()
        self._threads.shutdown()
        for sandbox in self._sandboxes:
            sandbox.close()

    def _attempt(self, template: Any, point: Point, to_beat: float) -> Outcome:
        if not hasattr(self._own, "sandbox"):
            self._own.sandbox = Sandbox()
            self._sandboxes.append(self._own.sandbox)
            prepare(self._own.sandbox, self._measure)
        own: Sandbox = self._own.sandbox
        return attempt(own, self._measure, template, point, to_beat, self._seconds)
