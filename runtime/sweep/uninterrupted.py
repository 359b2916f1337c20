"""What Dask runs in a worker that starts, where the keyboard must not interrupt it."""

from __future__ import annotations

import signal
from typing import Any

__all__ = ["dask_setup"]


def dask_setup(worker: Any) -> None:
    """Leave interrupts to the process that has started the workers, and ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
