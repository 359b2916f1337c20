"""GPUs that OpenCL reaches, and with PoCL the processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError
from vdla.module import GpuKernel
from vdla.runtime.gpu import GpuDevice

__all__ = ["OpenClDevice"]

Array = NDArray[Any]

INSTALL = "pip install 'vdla[opencl]'"


class OpenClDevice(GpuDevice):
    """A device that OpenCL reaches.

    Parameters
    ----------
    name : str, optional
        A part of the name of the device or of its platform, in any case, such as ``"pocl"`` or
        ``"nvidia"``. Left out, the first GPU, or else the first device of any kind: with PoCL the
        processor itself.

    Attributes
    ----------
    name : str
        The device and its platform.

    Raises
    ------
    DeviceError
        pyopencl is not installed, there is no such device, or none at all.
    """

    target = "opencl"

    def __init__(self, name: str | None = None) -> None:
        self._cl = _pyopencl()
        self.errors = (self._cl.Error,)
        device = _chosen(self._cl, name)
        self.name = _title(device)
        self._device = device
        self.on_processor = not device.type & self._cl.device_type.GPU
        self._context = self._cl.Context([device])
        self._queue = self._cl.CommandQueue(self._context)
        # OpenCL lets quotients be some units off, and quantized operators want them exact.
        exact = device.single_fp_config & self._cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        self._options = ["-cl-fp32-correctly-rounded-divide-sqrt"] if exact else []

    @property
    def room(self) -> tuple[int, tuple[int, ...]]:
        """Most threads of a block, and most of them along x, y and z."""
        return self._device.max_work_group_size, tuple(self._device.max_work_item_sizes)

    def function(self, code: GpuKernel) -> Any:
        """Return the function of a kernel's source."""
        program = self._cl.Program(self._context, code.source).build(self._options)
        return getattr(program, code.entry)

    def memory(self, size: int) -> Any:
        """Return memory of the device, of so many bytes; nothing is written there."""
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size)

    def copied(self, array: Array) -> Any:
        """Return memory of the device that holds a copy of an array, to be read alone."""
        flags = self._cl.mem_flags
        held = np.ascontiguousarray(array)
        return self._cl.Buffer(self._context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=held)

    def part(self, memory: Any, offset: int, size: int) -> Any:
        """Return a part of memory as memory."""
        return memory.get_sub_region(offset, size)

    def write(self, memory: Any, array: Array) -> None:
        """Copy a contiguous array to the device, after all that was asked of it before."""
        self._cl.enqueue_copy(self._queue, memory, array)

    def read(self, memory: Any, array: Array) -> None:
        """Copy memory of the device to a contiguous array, once all is done that was asked."""
        self._cl.enqueue_copy(self._queue, array, memory)

    def wait(self) -> None:
        """Return once all is done that was asked."""
        self._queue.finish()

    def launch(self, function: Any, code: GpuKernel, memories: Sequence[Any]) -> None:
        """Put a kernel into the queue."""
        everywhere = tuple(n * k for n, k in zip(code.grid, code.block, strict=True))
        function(self._queue, everywhere, code.block, *memories)


def _pyopencl() -> Any:
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError(
            f"OpenCL needs the package pyopencl, and it cannot be imported ({error}): {INSTALL}"
        ) from None
    return pyopencl


def _devices(cl: Any) -> list[Any]:
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # the loader's way to say that there is none
        return []
    return [device for platform in platforms for device in platform.get_devices()]


def _chosen(cl: Any, name: str | None) -> Any:
    devices = _devices(cl)
    if not devices:
        raise DeviceError(
            "OpenCL needs a device, and no platform offers one: install the driver of the GPU, or "
            f"PoCL, which runs kernels on the processor: {INSTALL}"
        )
    if name is None:
        gpus = [device for device in devices if device.type & cl.device_type.GPU]
        return (gpus or devices)[0]
    for device in devices:
        if name.lower() in _title(device).lower():
            return device
    raise DeviceError(
        f"An OpenCL device must be one of {'; '.join(map(_title, devices))}, and none is called "
        f"{name!r}: name a part of one of these."
    )


def _title(device: Any) -> str:
    return f"{device.name.strip()} ({device.platform.name.strip()}, {device.version.strip()})"
