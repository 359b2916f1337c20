"""Who attempts candidates: processes of this machine, each of which may crash or hang."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from vdla.compiler.tune.features import Features
from vdla.compiler.tune.space import Point

from .attempt import Measure, Outcome, attempt, features_of, prepare, share_out
from .sandbox import CrashError, Sandbox, TimeLimitError

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

    def features(self, template: Any, points: Sequence[Point]) -> list[Features | None]:
        """Return what a model sees of points, None for each that cannot be lowered."""
        return share_out(
            points,
            self.workers,
            lambda shares: list(self._threads.map(lambda one: self._see(template, one), shares)),
        )

    def close(self) -> None:
        """End the processes, whatever they are at."""
        self._threads.shutdown(wait=False, cancel_futures=True)  # before: none starts another
        for sandbox in self._sandboxes:
            sandbox.kill()
        self._threads.shutdown()
        for sandbox in self._sandboxes:
            sandbox.close()

    def _attempt(self, template: Any, point: Point, to_beat: float) -> Outcome:
        return attempt(self._sandbox(), self._measure, template, point, to_beat, self._seconds)

    def _see(self, template: Any, points: Sequence[Point]) -> list[Features | None]:
        try:
            found: list[Features | None] = self._sandbox().run(
                features_of, template, points, seconds=self._seconds * len(points)
            )
        except (CrashError, TimeLimitError):  # the process was killed: not for what it lowered
            return features_of(template, points)
        return found

    def _sandbox(self) -> Sandbox:
        """Return the process of this thread."""
        if not hasattr(self._own, "sandbox"):
            self._own.sandbox = Sandbox()
            self._sandboxes.append(self._own.sandbox)
            prepare(self._own.sandbox, self._measure)
        own: Sandbox = self._own.sandbox
        return own
