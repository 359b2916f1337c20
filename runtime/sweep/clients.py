"""A client of Dask: of workers that are started here, or of a scheduler that runs already."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vdla.errors import InputError

from .local import local_client

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["count_workers", "open_client"]

_PATIENCE = "20s"
"""For a scheduler's answer."""


def count_workers(workers: int | None, scheduler: Any) -> int:
    """Return how many processes of this machine are to work: one a core, or those asked for.

    Raises
    ------
    InputError
        Workers and a scheduler are given, or there is no worker.
    """
    if scheduler is not None and workers is not None:
        raise InputError(
            f"There must be workers or a scheduler, not both {workers} and {scheduler}: a "
            "scheduler has its own workers."
        )
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, not {workers}.")
    if workers is not None:
        return workers
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def open_client(workers: int | None, scheduler: Any, *, children: bool = False) -> Iterator[Client]:
    """Yield a client; what is started for it ends with the block.

    Parameters
    ----------
    workers : int, optional
        Processes of this machine, by default one a core.
    scheduler : str or Client, optional
        A Dask scheduler's address, or a client of one, instead.
    children : bool
        As `local_client` takes it.

    Raises
    ------
    InputError
        Both are given, there is no worker, or no scheduler answers.
    ModuleNotFoundError
        Dask is not installed.
    """
    count = count_workers(workers, scheduler)
    if scheduler is None:
        with local_client(count, children=children) as client:
            yield client
        return
    from distributed import Client

    if isinstance(scheduler, Client):
        yield scheduler
        return
    try:
        client = Client(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise InputError(
            f"A scheduler must answer at its address, not {scheduler!r} ({error}): start one "
            "with `dask scheduler`."
        ) from None
    with client:
        yield client
