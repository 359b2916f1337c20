"""Devices by name, each imported when it is asked for."""

from __future__ import annotations

from vdla.config import Config
from vdla.errors import DeviceError
from vdla.runtime.device import Device

__all__ = ["NAMES", "open_device"]

NAMES = ("cycle", "functional", "rtl")
"""Devices that run programs."""


def open_device(name: str, config: Config, images: int = 1) -> Device:
    """Return a device.

    Parameters
    ----------
    name : str
        ``functional``: results only; ``cycle``: results and exact timing; ``rtl``: the gateware.
    config : Config
    images : int
        Memories that a program runs on.

    Raises
    ------
    DeviceError
        There is no such device.
    """
    if name == "functional":
        from .functional import FunctionalDevice

        return FunctionalDevice(config, images)
    if name == "cycle":
        from .cycle import CycleDevice

        return CycleDevice(config, images)
    if name == "rtl":
        from .rtl import RtlDevice

        return RtlDevice(config, images)
    raise DeviceError(f"A device must be one of {', '.join(NAMES)}, not {name!r}.")
