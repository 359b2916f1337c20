"""Kernels on an OpenCL device: built from source, given numpy arrays, read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.targets.gpu import OPENCL, Kernel, Parameter, source_of
from vdla.errors import DeviceError, InputError

__all__ = ["OpenClDevice", "OpenClKernel"]

Array = NDArray[Any]

INSTALL = "pip install 'vdla[opencl]'"


class OpenClDevice:
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

    def __init__(self, name: str | None = None) -> None:
        self._cl = _pyopencl()
        device = _chosen(self._cl, name)
        self.name = _title(device)
        self._device = device
        self._context = self._cl.Context([device])
        self._queue = self._cl.CommandQueue(self._context)

    def build(self, kernel: Kernel) -> OpenClKernel:
        """Compile a kernel's source.

        Raises
        ------
        DeviceError
            The device has no room for the kernel, or its compiler refuses the source.
        """
        self._check_room(kernel)
        source = source_of(kernel, OPENCL)
        try:
            program = self._cl.Program(self._context, source).build()
            (function,) = program.all_kernels()
        except self._cl.Error as error:
            raise DeviceError(
                f"The source of a kernel must be what the device's compiler takes, and "
                f"{self.name} refuses {kernel.name}: {error}"
            ) from None
        return OpenClKernel(self, self._queue, kernel, function)

    def memory(self, size: int) -> Any:
        """Return memory of the device, of so many bytes; nothing is written there."""
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size)

    def copied(self, array: Array) -> Any:
        """Return memory of the device that holds a copy of an array, to be read alone."""
        flags = self._cl.mem_flags
        held = np.ascontiguousarray(array)
        return self._cl.Buffer(self._context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=held)

    def write(self, memory: Any, array: Array) -> None:
        """Copy a contiguous array to the device, after all that was asked of it before."""
        self._cl.enqueue_copy(self._queue, memory, array)

    def read(self, memory: Any, array: Array) -> None:
        """Copy memory of the device to a contiguous array, once all is done that was asked."""
        self._cl.enqueue_copy(self._queue, array, memory)

    @contextmanager
    def failing(self, name: str) -> Iterator[None]:
        """Say of what runs inside that the device fails, in an error of vdla's.

        Raises
        ------
        DeviceError
            The device reports an error.
        """
        try:
            yield
        except self._cl.Error as error:
            raise DeviceError(
                f"{name} must run to its end, and the device says {error}: try another "
                "device, or a smaller tile."
            ) from None

    def _check_room(self, kernel: Kernel) -> None:
        threads = int(np.prod(kernel.block))
        most = self._device.max_work_group_size
        sizes = self._device.max_work_item_sizes
        if threads > most or any(n > limit for n, limit in zip(kernel.block, sizes, strict=False)):
            raise DeviceError(
                f"A block must have at most {most} threads, {' x '.join(map(str, sizes))}, on "
                f"{self.name}, and {kernel.name} has {' x '.join(map(str, kernel.block))}: choose "
                "a smaller tile."
            )


class OpenClKernel:
    """A kernel that a device has compiled; called with arrays, it returns what it computes."""

    def __init__(self, device: OpenClDevice, queue: Any, kernel: Kernel, function: Any) -> None:
        self._device, self._queue = device, queue
        self._function = function
        self.kernel = kernel

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Copy arrays to the device, run the kernel, and copy what it wrote back.

        Parameters
        ----------
        arrays : array
            One for each parameter that is read, in order.

        Returns
        -------
        tuple of array
            One for each parameter that is written, in order.

        Raises
        ------
        InputError
            An array is not of its parameter's shape and dtype.
        DeviceError
            The device fails.
        """
        read = [p for p in self.kernel.parameters if not p.written]
        if len(arrays) != len(read):
            raise InputError(
                f"{self.kernel.name} must be given {len(read)} arrays "
                f"({', '.join(p.buffer.name for p in read)}), not {len(arrays)}."
            )
        given = iter([_checked(p, array) for p, array in zip(read, arrays, strict=True)])
        with self._device.failing(self.kernel.name):
            return self._run([None if p.written else next(given) for p in self.kernel.parameters])

    def _run(self, arrays: list[Array | None]) -> tuple[Array, ...]:
        buffers, results = [], []
        for parameter, array in zip(self.kernel.parameters, arrays, strict=True):
            if array is None:
                result = np.empty(parameter.shape, parameter.buffer.dtype)
                buffers.append(self._device.memory(result.nbytes))
                results.append((result, buffers[-1]))
            else:
                buffers.append(self._device.copied(array))
        self.enqueue(buffers)
        for result, buffer in results:
            self._device.read(buffer, result)
        return tuple(result for result, _ in results)

    def enqueue(self, buffers: Sequence[Any]) -> None:
        """Ask the device to run the kernel on its own memory, after all that it was asked before.

        Parameters
        ----------
        buffers : sequence of pyopencl.Buffer
            One for each parameter, in order.
        """
        everywhere = tuple(
            blocks * threads
            for blocks, threads in zip(self.kernel.grid, self.kernel.block, strict=True)
        )
        self._function(self._queue, everywhere, self.kernel.block, *buffers)


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


def _checked(parameter: Parameter, array: Array) -> Array:
    shape, dtype = parameter.shape, parameter.buffer.dtype
    if array.shape != shape or str(array.dtype) != dtype:
        raise InputError(
            f"{parameter.buffer.name} must be {dtype}{list(shape)}, not "
            f"{array.dtype}{list(array.shape)}."
        )
    return np.ascontiguousarray(array)
