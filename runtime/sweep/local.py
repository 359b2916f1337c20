"""Workers on this machine, forked from a process that has imported all they need."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from vdla.errors import InputError
from vdla.processor import ONE_THREAD

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["TRIES", "local_client"]

TRIES = 3
"""Workers that a point may take down with it before it is given up."""

_IMPORTED = (
    "distributed.nanny",
    "vdla.runtime.sweep.evaluate",
    "vdla.runtime.network",
    "vdla.compiler.network",
    "vdla.sim.cycle",
)
_ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(128 << 20), **ONE_THREAD}
"""What libraries read once, as they are loaded."""

_LEFT = (*_ENVIRONMENT, "PYTHONHASHSEED", "__DASK_PARENT_PID")
"""What Dask sets here as it starts workers."""


@contextmanager
def local_client(workers: int, *, children: bool = False) -> Iterator[Client]:
    """Yield a client of a scheduler with so many workers, which end with the block.

    Parameters
    ----------
    workers : int
    children : bool
        Whether workers may start processes of their own. From the keyboard they are then not
        interrupted themselves: they have those to end.

    Raises
    ------
    InputError
        The workers end as they start.
    ModuleNotFoundError
        Dask is not installed.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise _unguarded()  # a worker runs the caller's script to know its functions
    method = _start_method()  # it imports beside what this process imports
    import dask
    from distributed import Client, LocalCluster

    # No dashboard, no port beyond this machine; workers end with this process.
    settings = {
        "distributed.scheduler.allowed-failures": TRIES,
        "distributed.scheduler.worker-saturation": 1.0,  # who is idle takes the next point
        "distributed.worker.multiprocessing-method": method,
        # Whatever a worker does beside a point interrupts it.
        "distributed.worker.profile.enabled": False,
        "distributed.worker.memory.monitor-interval": "1s",
        "distributed.admin.system-monitor.interval": "5s",
        "distributed.admin.tick.interval": "1s",
        "distributed.worker.daemon": not children,
        "distributed.nanny.pre-spawn-environ": _ENVIRONMENT,
    }
    if children:
        settings["distributed.worker.preload"] = [f"{__package__}.uninterrupted"]
    before = dict(os.environ)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        stack.callback(_restore, before)
        try:
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # it listens nevertheless
                silence_logs=50,
                env=before,  # as it is now, and not when the first sweep began
            )
        except RuntimeError:
            raise _unguarded() from None
        stack.enter_context(cluster)
        yield stack.enter_context(Client(cluster))


def _unguarded() -> InputError:
    return InputError(
        "Workers must be able to import the script that starts them, and this one starts others "
        'as it is imported: put what it does under `if __name__ == "__main__":`, or give workers=1.'
    )


def _restore(before: Mapping[str, str]) -> None:
    for name in _LEFT:
        os.environ.pop(name, None)
        if name in before:
            os.environ[name] = before[name]


def _start_method() -> str:
    """Start the process that workers are forked from, where there can be one."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return "spawn"
    from multiprocessing import forkserver

    multiprocessing.get_context("forkserver").set_forkserver_preload(list(_IMPORTED))
    before = dict(os.environ)
    os.environ.update(_ENVIRONMENT)
    try:
        forkserver.ensure_running()
    finally:
        _restore(before)
    return "forkserver"
