"""Who attempts candidates: the workers of a Dask scheduler, here or on other machines."""

from __future__ import annotations

import pickle
import threading
import time
import uuid
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from vdla.compiler.tune.features import Features
from vdla.compiler.tune.space import Point
from vdla.errors import DeviceError, VdlaError
from vdla.runtime.devices import HARDWARE
from vdla.runtime.sweep.clients import open_client

from .attempt import Measure, Outcome, features_of, share_out
from .onworker import attempt_here, build_here, end_here, features_here, run_here

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["Pool"]

_LOOK_SECONDS = 1.0
"""How often the workers are looked at while no candidate is done."""
_PATIENCE_SECONDS = 30.0
"""For a worker to come, where there is none."""
_ENDING_SECONDS = 5.0
"""For workers to end what they run, as the pool closes."""
_AGAIN = 1
"""How often a candidate is tried on another worker, where one was lost with it."""
_AHEAD = 2
"""Candidates at a time of what a worker has of its tag: one is built while another runs."""
_LOST = f"the workers that took it up ended, {_AGAIN + 1} of them: out of memory?"


class _Sent(NamedTuple):
    """A candidate that is being attempted: which, and on which workers."""

    place: int
    workers: tuple[str, ...]


class Pool:
    """Attempts candidates on workers of Dask.

    A candidate runs in a process of the worker, which is killed where it must be; the worker stays.
    One that is lost with its worker is tried on another once.

    Parameters
    ----------
    measure : callable
        Importable on the workers. Where it has ``build(template, point)`` and ``run(built,
        to_beat)`` beside, and there is a tag, workers without the tag build what those with it run.
    seconds : float
        Longest time of a candidate, building included; where it is built apart, of either part.
    workers : int, optional
        Processes of this machine, by default one a core.
    scheduler : str or Client, optional
        A Dask scheduler's address, or a client of one, instead.
    tag : str, optional
        A resource of Dask, such as ``pynq``: only workers that have it measure, each as many at a
        time as it has of it. Without, all do but boards.

    Raises
    ------
    InputError
        Workers and a scheduler are given, there is no worker, or no scheduler answers.
    ModuleNotFoundError
        Dask is not installed.
    """

    def __init__(
        self,
        measure: Measure,
        seconds: float,
        *,
        workers: int | None = None,
        scheduler: Any = None,
        tag: str | None = None,
    ) -> None:
        self._measure, self._seconds, self._tag = measure, seconds, tag
        self._apart = tag is not None and hasattr(measure, "build")
        self._owner = uuid.uuid4().hex
        self._templates: dict[int, tuple[Any, Future[bytes]]] = {}
        self._ending = ExitStack()
        self._client: Client = self._ending.enter_context(
            open_client(workers, scheduler, children=True)
        )
        self._address = str(self._client.scheduler_info(n_workers=-1)["address"])

    def __enter__(self) -> Pool:
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
            Picklable; sent to the pool once.
        points : sequence of mapping
        to_beat : float
            The least cost so far: values are checked of what is faster.

        Raises
        ------
        DeviceError
            The scheduler is gone, there is no worker for half a minute, or one may not start
            processes.
        """
        waiting = deque(range(len(points)))
        lost: Counter[int] = Counter()
        running: dict[Future[Any], _Sent] = {}
        seen = time.monotonic()
        looked = -inf
        try:
            while waiting or running:
                with self._reached():
                    if time.monotonic() - looked >= _LOOK_SECONDS:
                        measuring, building = self._workers()
                        looked = time.monotonic()
                    for workers in _free(measuring, building, running.values()):
                        if not waiting:
                            break
                        place = waiting.popleft()
                        future = self._send(template, points[place], to_beat, workers)
                        running[future] = _Sent(place, workers)
                    done = self._done(running, {*measuring, *(building or ())})
                for future, outcome in done:
                    place = running.pop(future).place
                    lost[place] += outcome is None
                    if outcome is None:
                        looked = -inf
                    if outcome is None and lost[place] <= _AGAIN:
                        waiting.append(place)
                    else:
                        yield place, outcome or Outcome(None, "crash", _LOST)
                if running or done:
                    seen = time.monotonic()
                elif time.monotonic() - seen > _PATIENCE_SECONDS:
                    raise self._nobody()
        finally:
            if running:
                with suppress(Exception):  # nobody may be there any more
                    self._client.cancel(list(running), force=True)

    def features(self, template: Any, points: Sequence[Point]) -> list[Features | None]:
        """Return what a model sees of points, None for each that cannot be lowered.

        Workers that have a compiler look; whatever is lost with one is looked at here.
        """
        able = {
            address: threads
            for address, threads, resources in self._registered()
            if HARDWARE.isdisjoint(resources)
        }
        if not able:
            return features_of(template, points)
        return share_out(
            points, sum(able.values()), lambda shares: self._see(template, shares, able)
        )

    def _see(
        self, template: Any, shares: list[Sequence[Point]], able: Iterable[str]
    ) -> list[list[Features | None]]:
        from distributed import CancelledError, KilledWorker

        sent, workers = self._sent(template), list(able)
        looking = [
            self._client.submit(
                features_here, sent, [dict(one) for one in share], workers=workers, pure=False
            )
            for share in shares
        ]
        found = []
        for future, share in zip(looking, shares, strict=True):
            try:
                found.append(future.result(timeout=self._seconds + _PATIENCE_SECONDS))
            except (TimeoutError, CancelledError, KilledWorker, OSError):
                found.append(features_of(template, share))
        return found

    def close(self) -> None:
        """End what runs, and the workers that were started here."""
        if self._client.status == "running":
            # A worker that is ending too does not answer, and need not be waited for.
            asking = threading.Thread(target=self._end, daemon=True)
            asking.start()
            asking.join(_ENDING_SECONDS)
        self._templates.clear()
        self._ending.close()

    def _end(self) -> None:
        with suppress(Exception):
            self._client.run(end_here, self._owner, on_error="ignore")

    def _workers(self) -> tuple[dict[str, int], dict[str, int] | None]:
        """Return who measures and who builds apart: how many candidates each takes, by address."""
        measuring: dict[str, int] = {}
        building: dict[str, int] = {}
        for address, threads, resources in self._registered():
            if self._tag is not None and self._tag in resources:
                share = min(int(resources[self._tag]), threads)
                measuring[address] = share * (_AHEAD if self._apart else 1)
            elif HARDWARE.isdisjoint(resources):  # a board has no compiler
                here = building if self._tag is not None else measuring
                here[address] = threads
        return measuring, building if self._apart else None

    def _registered(self) -> Iterator[tuple[str, int, Mapping[str, float]]]:
        """Yield the address of each worker, its threads and its resources."""
        for address, worker in self._client.scheduler_info(n_workers=-1)["workers"].items():
            yield address, worker["nthreads"], worker.get("resources") or {}

    def _send(
        self, template: Any, point: Point, to_beat: float, workers: tuple[str, ...]
    ) -> Future[Any]:
        owner, measure, seconds = self._owner, self._measure, self._seconds
        sent = self._sent(template)
        where: dict[str, Any] = {"workers": [workers[-1]], "pure": False}
        if self._tag is not None:
            where["resources"] = {self._tag: 1}
        if not self._apart:
            return self._client.submit(
                attempt_here, owner, measure, sent, dict(point), to_beat, seconds, **where
            )
        built = self._client.submit(
            build_here,
            owner,
            measure,
            sent,
            dict(point),
            seconds,
            workers=[workers[0]],
            pure=False,
        )
        return self._client.submit(run_here, owner, measure, built, to_beat, seconds, **where)

    def _sent(self, template: Any) -> Future[bytes]:
        """Send a template once; it is sent again where who had it is gone."""
        if id(template) not in self._templates:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")
                future = self._client.submit(_same, pickle.dumps(template), pure=False)
            self._templates[id(template)] = template, future  # kept, so that no other has its id
        return self._templates[id(template)][1]

    def _done(
        self, running: Mapping[Future[Any], _Sent], workers: set[str]
    ) -> list[tuple[Future[Any], Outcome | None]]:
        """Return what became of those that are done; None of those whose worker is gone."""
        from distributed import wait

        found: list[tuple[Future[Any], Outcome | None]] = [
            (future, None) for future, sent in running.items() if not workers.issuperset(sent[1])
        ]
        if found:
            self._client.cancel([future for future, _ in found], force=True)
            return found
        if not running:
            time.sleep(_LOOK_SECONDS / 4)
            return []
        try:
            done = wait(list(running), timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            return []
        for future in done:
            with suppress(TimeoutError):  # its worker is gone with the result
                found.append((future, self._outcome(future)))
        return found

    def _outcome(self, future: Future[Any]) -> Outcome | None:
        from distributed import CancelledError, KilledWorker

        try:
            outcome: Outcome = future.result(timeout=_LOOK_SECONDS)
        except KilledWorker:
            return None
        except (CancelledError, TimeoutError, VdlaError):
            raise
        except Exception as error:  # of the worker itself: it may lack a package
            return Outcome(None, "crash", f"{type(error).__name__}: {error}")
        return outcome

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn whatever becomes of a scheduler that is gone into one error."""
        from distributed import CancelledError

        if self._client.status != "running":  # what is asked then is waited for
            raise self._alone()
        try:
            yield
        except VdlaError:
            raise
        except (CancelledError, OSError) as error:
            raise self._alone() from error
        except RuntimeError as error:
            if self._client.status == "running":
                raise
            raise self._alone() from error

    def _alone(self) -> DeviceError:
        return DeviceError(
            f"A pool's scheduler must stay, and {self._address} is gone: what was measured is "
            "kept; start the scheduler and its workers again, and then the search"
        )

    def _nobody(self) -> DeviceError:
        what, how = "a worker", ""
        if self._tag is not None:
            what = f"a worker with the resource {self._tag}"
            how = f" --resources {self._tag}=1"
            if self._apart:
                what += ", and one without that builds for it"
        return DeviceError(
            f"A pool must have {what}, and {self._address} has none: start one with "
            f"`dask worker {self._address} --nthreads 1 --no-nanny{how}`; what was measured is kept"
        )


def _free(
    measuring: Mapping[str, int], building: Mapping[str, int] | None, running: Iterable[_Sent]
) -> Iterator[tuple[str, ...]]:
    """Yield who can take a candidate: who measures it, or who builds and who measures it."""
    busy = Counter(address for sent in running for address in sent.workers)
    slots = [
        (taken, address)
        for address, count in measuring.items()
        for taken in range(busy[address], count)
    ]
    for _, address in sorted(slots):
        if building is None:
            yield (address,)
        elif building:
            builder = min(building, key=lambda one: busy[one] / building[one])
            busy[builder] += 1
            yield builder, address


def _same(value: bytes) -> bytes:
    return value
