"""Devices by name, each imported when it is asked for."""

from __future__ import annotations

from vdla.config import Config
from vdla.errors import DeviceError, InputError
from vdla.module import GPU_TARGETS
from vdla.runtime.device import Device
from vdla.runtime.waves import Waves

__all__ = ["DRIVEN", "HARDWARE", "NAMES", "PROCESSOR", "open_device", "parts_of"]

NAMES = ("cycle", "functional", "rtl")
"""Simulators, which every machine has or can install."""

HARDWARE = frozenset({"pynq"})
"""Those with one memory, however many images there are."""

DRIVEN = ("cuda", "opencl")
"""GPUs that Python reaches, by the language of their kernels."""

PROCESSOR = "cpu"
"""No accelerator: what networks run on of which nothing was compiled for one."""


def parts_of(name: str) -> tuple[str, tuple[str, str | None] | None]:
    """Return the accelerator of a device's name, and the GPU beside it.

    Before: ``"cycle+opencl:pocl"``. After: ``"cycle", ("opencl", "pocl")``. A GPU alone,
    ``"opencl"``, has no accelerator: ``"cpu", ("opencl", None)``.
    """
    accelerator, plus, gpu = name.partition("+")
    if not plus and name.partition(":")[0] in GPU_TARGETS:
        accelerator, plus, gpu = PROCESSOR, "+", name
    if not plus:
        return name, None
    target, _, part = gpu.partition(":")
    if target not in GPU_TARGETS:
        raise DeviceError(
            f"A GPU beside an accelerator must be one of {', '.join(DRIVEN)}, not {target!r}: "
            "name it as in cycle+opencl, or cycle+opencl:NAME for one of several."
        )
    return accelerator, (target, part or None)


def open_device(
    name: str, config: Config, images: int = 1, *, waves: Waves | None = None
) -> Device:
    """Return a device.

    Parameters
    ----------
    name : str
        ``functional``: results only; ``cycle``: results and exact timing; ``rtl``: the gateware;
        ``pynq``: the board that this is; ``cpu``: the processor alone, for networks without
        programs.
    config : Config
    images : int
        Memories that a program runs on.
    waves : Waves, optional
        Signals of the gateware to write.

    Raises
    ------
    DeviceError
        There is no such device.
    InputError
        Waves are asked of one without signals.
    """
    if waves is not None and name != "rtl":
        raise InputError(
            f"Waves are signals of the gateware: the device must be rtl, not {name!r}."
        )
    if name == "functional":
        from .functional import FunctionalDevice

        return FunctionalDevice(config, images)
    if name == "cycle":
        from .cycle import CycleDevice

        return CycleDevice(config, images)
    if name == "rtl":
        from .rtl import RtlDevice

        return RtlDevice(config, images, waves=waves)
    if name == "pynq":
        from .board import PynqDevice

        return PynqDevice(config, images)
    if name == PROCESSOR:
        from .processor import ProcessorDevice

        return ProcessorDevice(config, images)
    if name.startswith("pynq@"):
        raise DeviceError(
            f"Only vdla run reaches a board over the network, and {name!r} is one: on the board "
            "itself, after sudo -i, its name is pynq."
        )
    known = ", ".join((*NAMES, *sorted(HARDWARE), PROCESSOR, *DRIVEN))
    raise DeviceError(f"A device must be one of {known}, not {name!r}.")
