"""Who works on points: this process, processes of this machine, or machines through Dask."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vdla.errors import VdlaError
from vdla.runtime.devices import HARDWARE

from .clients import count_workers, open_client
from .evaluate import build, failure, measure
from .local import TRIES
from .networks import Networks
from .points import Point

if TYPE_CHECKING:
    from distributed import Client, Future

    from vdla.compiler.graph import Graph

__all__ = ["Job", "Pool", "open_pool"]

Job = tuple[str, Point]
"""A key, and the point whose result it names."""

Pool = Callable[[Sequence[Job]], Iterator[tuple[str, dict[str, Any]]]]
"""Yields the result of each job, in any order."""


@contextmanager
def open_pool(networks: Networks, workers: int | None, scheduler: Any) -> Iterator[Pool]:
    """Yield who evaluates points while the block runs.

    Parameters
    ----------
    networks : Networks
    workers : int, optional
        Processes of this machine, by default one a core; one works in this process itself.
    scheduler : str or Client, optional
        A Dask scheduler's address, or a client of one, instead.

    Raises
    ------
    InputError
        Both are given, there is no worker, or no scheduler answers.
    ModuleNotFoundError
        Dask is not installed.
    """
    if scheduler is None and count_workers(workers, scheduler) == 1:
        yield _serial(networks)
        return
    with open_client(workers, scheduler) as client:
        yield _dask(networks, client)


def _serial(networks: Networks) -> Pool:
    def work(jobs: Sequence[Job]) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, point in jobs:
            try:
                network = networks.get(point.network, point.options["without"])
            except VdlaError as error:
                yield key, failure(error)
                continue
            yield key, measure(point, build(point, _read(network)))

    return work


def _dask(networks: Networks, client: Client) -> Pool:
    from distributed import as_completed

    def work(jobs: Sequence[Job]) -> Iterator[tuple[str, dict[str, Any]]]:
        sent: dict[str, Future[Any]] = {}
        waiting: dict[Any, str] = {}
        for key, point in jobs:
            without = point.options["without"]
            try:
                network: Any = networks.get(point.network, without)
            except VdlaError as refused:
                yield key, failure(refused)
                continue
            if not isinstance(network, str):  # once for all points; made again if a worker is lost
                label = networks.label(point.network, without)
                if label not in sent:
                    with warnings.catch_warnings():
                        warnings.filterwarnings("ignore", "Sending large graph")
                        sent[label] = client.submit(_same, network, key=label)
                network = sent[label]
            waiting[_submit(client, key, point, network)] = key
        queue = as_completed(list(waiting))
        for future in queue:
            error = future.exception() if future.status != "finished" else None
            result = future.result() if error is None else _lost(error)
            yield waiting.pop(future), result

    return work


def _submit(client: Client, key: str, point: Point, network: Any) -> Future[Any]:
    device = point.options["device"]
    if device not in HARDWARE:
        return client.submit(_evaluate, point, network, key=f"vdla-{key}")
    # A board has no compiler: another worker makes what it runs.
    built = client.submit(_build, point, network, key=f"vdla-build-{key}")
    return client.submit(measure, point, built, key=f"vdla-{key}", resources={device: 1})


def _lost(error: BaseException) -> dict[str, Any]:
    from distributed import KilledWorker

    found = failure(error)
    if isinstance(error, KilledWorker):
        found["reason"] = f"the workers that took it up ended, {TRIES} or more: out of memory?"
    return {**found, "passing": True}


def _evaluate(point: Point, network: str | Graph) -> dict[str, Any]:
    return measure(point, build(point, _read(network)))


def _build(point: Point, network: str | Graph) -> Any:
    return build(point, _read(network))


def _read(network: str | Graph) -> Any:
    return _built_in(network) if isinstance(network, str) else network


@lru_cache(maxsize=4)
def _built_in(name: str) -> Any:
    from vdla.compiler.zoo import built_in

    try:
        return built_in(name)
    except VdlaError:
        return name  # `build` says what is wrong


def _same(value: Any) -> Any:
    return value
