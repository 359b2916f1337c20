"""Who attempts candidates for a device: processes of this machine, or a pool."""

from __future__ import annotations

from typing import Any

from vdla.config import Config
from vdla.errors import InputError
from vdla.processor import available_cores
from vdla.runtime.devices import HARDWARE

from .attempts import Attempts
from .devices import measure_on
from .pool import Pool

__all__ = ["open_runner"]


def open_runner(
    device: str,
    config: Config,
    *,
    seconds: float,
    workers: int | None = None,
    scheduler: Any = None,
) -> Attempts | Pool:
    """Return who attempts candidates for the accelerator; to be closed.

    Parameters
    ----------
    device : str
        As `measure_on` takes it. With a scheduler, ``pynq`` is measured on its workers that have
        that resource.
    config : Config
    seconds : float
        Longest time of a candidate.
    workers : int, optional
        Processes of this machine; by default one a core, and one where there is one board.
    scheduler : str or Client, optional
        A Dask scheduler's address, or a client of one, instead.

    Raises
    ------
    InputError
        The device counts no cycles, or workers and a scheduler are given, or more workers than a
        board takes.
    DeviceError
        The gateware cannot be built.
    """
    measure = measure_on(device, config)
    if scheduler is not None:
        tag = device if device in HARDWARE else None
        return Pool(measure, seconds, workers=workers, scheduler=scheduler, tag=tag)
    boards = device.partition("@")[0] in HARDWARE
    if boards and (workers or 1) > 1:
        raise InputError(
            f"A board takes one candidate at a time, and {device} is one: leave --workers "
            f"{workers} out, or give a scheduler whose workers are on several boards."
        )
    if device == "rtl":  # once, and not by each process
        from vdla.runtime.rtl import build_top

        build_top(config)
    return Attempts(measure, workers or (1 if boards else available_cores()), seconds)
