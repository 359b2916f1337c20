"""What every GPU does with kernels, whatever drives it: load, hold memory, copy, launch."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError, InputError
from vdla.module import GpuArgument, GpuKernel

if TYPE_CHECKING:
    from vdla.compiler.targets.gpu import Kernel

__all__ = ["GpuDevice", "LoadedKernel", "open_gpu"]

Array = NDArray[Any]
Memory = Any
"""Of the device: whatever its driver's binding names it by."""


class GpuDevice(ABC):
    """A GPU, or what stands for one, with one queue: all that it is asked for happens in order.

    Attributes
    ----------
    target : str
        The language of kernels that it takes, a name of `vdla.module.GPU_TARGETS`.
    name : str
        The device and what drives it.
    errors : tuple of type
        What the driver's binding raises.
    on_processor : bool
        Whether it is the processor that stands for a GPU: how long it takes says nothing of one.
    """

    target: ClassVar[str]
    name: str
    errors: tuple[type[Exception], ...]
    on_processor = False

    def build(self, kernel: Kernel) -> LoadedKernel:
        """Write a kernel's source, and load it.

        Raises
        ------
        DeviceError
            The device has no room for the kernel, or its compiler refuses the source.
        """
        from vdla.compiler.gpu.code import kernel_code

        return self.load(kernel_code(kernel, self.target))

    def load(self, code: GpuKernel) -> LoadedKernel:
        """Compile a kernel's source, or take what it was compiled to.

        Raises
        ------
        DeviceError
            The device has no room for the kernel, or its compiler refuses the source.
        """
        self._check_room(code)
        try:
            function = self.function(code)
        except self.errors as error:
            raise DeviceError(
                f"The source of a kernel must be what the device's compiler takes, and "
                f"{self.name} refuses {code.name}: {error}"
            ) from None
        return LoadedKernel(self, code, function)

    @property
    @abstractmethod
    def room(self) -> tuple[int, tuple[int, ...]]:
        """Most threads of a block, and most of them along x, y and z."""

    @abstractmethod
    def function(self, code: GpuKernel) -> Any:
        """Return what `launch` calls; errors are the driver's."""

    @abstractmethod
    def memory(self, size: int) -> Memory:
        """Return memory of the device, of so many bytes; nothing is written there."""

    @abstractmethod
    def copied(self, array: Array) -> Memory:
        """Return memory of the device that holds a copy of an array, to be read alone."""

    @abstractmethod
    def part(self, memory: Memory, offset: int, size: int) -> Memory:
        """Return a part of memory as memory."""

    @abstractmethod
    def write(self, memory: Memory, array: Array) -> None:
        """Copy a contiguous array to the device, after all that was asked of it before."""

    @abstractmethod
    def read(self, memory: Memory, array: Array) -> None:
        """Copy memory of the device to a contiguous array, once all is done that was asked."""

    @abstractmethod
    def launch(self, function: Any, code: GpuKernel, memories: Sequence[Memory]) -> None:
        """Ask the device to run a kernel on its own memory, after all that it was asked before."""

    @abstractmethod
    def wait(self) -> None:
        """Return once all is done that was asked."""

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return a call that asks the device for what `work` asks it for, as fast as it can."""
        return work

    def seconds(self, work: Callable[[], None], count: int) -> float:
        """Return what it takes the device to do some work so many times in a row, once."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(count):
            work()
        self.wait()
        return (time.perf_counter() - begin) / count

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
        except self.errors as error:
            raise DeviceError(
                f"{name} must run to its end, and the device says {error}: try another "
                "device, or a smaller tile."
            ) from None

    def _check_room(self, code: GpuKernel) -> None:
        most, sizes = self.room
        threads = int(np.prod(code.block))
        if threads > most or any(n > limit for n, limit in zip(code.block, sizes, strict=False)):
            raise DeviceError(
                f"A block must have at most {most} threads, {' x '.join(map(str, sizes))}, on "
                f"{self.name}, and {code.name} has {' x '.join(map(str, code.block))}: choose "
                "a smaller tile."
            )


class LoadedKernel:
    """A kernel that a device has compiled; called with arrays, it returns what it computes."""

    def __init__(self, device: GpuDevice, code: GpuKernel, function: Any) -> None:
        self._device, self._function = device, function
        self.code = code

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Copy arrays to the device, run the kernel, and copy what it wrote back.

        Parameters
        ----------
        arrays : array
            One for each argument that is read, in order.

        Returns
        -------
        tuple of array
            One for each argument that is written, in order.

        Raises
        ------
        InputError
            An array is not of its argument's shape and dtype.
        DeviceError
            The device fails.
        """
        arguments = self.code.arguments
        read = [one for one in arguments if not one.written]
        if len(arrays) != len(read):
            raise InputError(
                f"{self.code.name} must be given {len(read)} arrays "
                f"({', '.join(one.name for one in read)}), not {len(arrays)}."
            )
        given = iter([_checked(one, array) for one, array in zip(read, arrays, strict=True)])
        with self._device.failing(self.code.name):
            return self._run([None if one.written else next(given) for one in arguments])

    def _run(self, arrays: list[Array | None]) -> tuple[Array, ...]:
        memories, results = [], []
        for argument, array in zip(self.code.arguments, arrays, strict=True):
            if array is None:
                result = np.empty(argument.shape, argument.dtype)
                memories.append(self._device.memory(result.nbytes))
                results.append((result, memories[-1]))
            else:
                memories.append(self._device.copied(array))
        self.enqueue(memories)
        for result, memory in results:
            self._device.read(memory, result)
        return tuple(result for result, _ in results)

    def enqueue(self, memories: Sequence[Memory]) -> None:
        """Ask the device to run the kernel on its own memory, after all that it was asked before.

        Parameters
        ----------
        memories : sequence
            Of the device, one for each argument, in order.
        """
        self._device.launch(self._function, self.code, memories)


def open_gpu(target: str, name: str | None = None) -> GpuDevice:
    """Return a device that takes kernels in a language.

    Parameters
    ----------
    target : str
        ``opencl`` or ``cuda``.
    name : str, optional
        A part of the device's name, as the device's class takes it.

    Raises
    ------
    DeviceError
        There is no such device, or nothing here that drives one.
    """
    if target == "opencl":
        from vdla.runtime.opencl import OpenClDevice

        return OpenClDevice(name)
    if target == "cuda":
        from vdla.runtime.cuda import CudaDevice

        return CudaDevice(name)
    raise DeviceError(
        f"Kernels must be for opencl or cuda to run from Python, not for {target}: write its "
        "source with --emit-source, which brings a host program."
    )


def _checked(argument: GpuArgument, array: Array) -> Array:
    if array.shape != argument.shape or str(array.dtype) != argument.dtype:
        raise InputError(
            f"{argument.name} must be {argument.dtype}{list(argument.shape)}, not "
            f"{array.dtype}{list(array.shape)}."
        )
    return np.ascontiguousarray(array)
