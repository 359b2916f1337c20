"""Workers on this machine, forked from a process that has imported all they need."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""What libraries read once, as they are loaded: a worker has one core."""


@contextmanager
def local_client(workers: int) -> Iterator[Client]:
    """Yield a client of a scheduler with so many workers, which end with the block.

    Raises
    ------
    ModuleNotFoundError
        Dask is not installed.
    """
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
        "distributed.nanny.pre-spawn-environ": _ENVIRONMENT,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
            env=dict(os.environ),  # as it is now, and not when the first sweep began
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


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
        os.environ.clear()
        os.environ.update(before)
    return "forkserver"
