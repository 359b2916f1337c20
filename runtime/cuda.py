"""NVIDIA's GPUs: kernels compiled by NVRTC for the very device, and launched by the driver."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError
from vdla.module import GpuKernel
from vdla.runtime.gpu import GpuDevice

__all__ = ["CudaDevice", "CudaError", "compile_source"]

Array = NDArray[Any]

INSTALL = "pip install 'vdla[cuda]'"
_AXES = ("X", "Y", "Z")


class CudaError(Exception):
    """What the driver or NVRTC reports."""


@dataclass(frozen=True, eq=False)
class _Memory:
    """Bytes of the device; a whole allocation is freed when nobody refers to it any more."""

    address: int
    whole: object = None


class CudaDevice(GpuDevice):
    """A GPU of NVIDIA's.

    Parameters
    ----------
    name : str, optional
        Its number, or a part of its name in any case, such as ``"h100"``. Left out, the first.

    Attributes
    ----------
    name : str
        The device and its compute capability.
    architecture : int
        Ten times the compute capability: 90 is ``sm_90``.

    Raises
    ------
    DeviceError
        cuda-bindings or the driver is not installed, or there is no such device.
    """

    target = "cuda"
    errors = (CudaError,)

    def __init__(self, name: str | None = None) -> None:
        self._cu = _bindings("driver")
        _start(self._cu)
        self._device = _chosen(self._cu, name)
        self.architecture = _architecture(self._cu, self._device)
        self.name = _title(self._cu, self._device)
        attribute = self._cu.CUdevice_attribute
        most = attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        sizes = [getattr(attribute, f"CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_{axis}") for axis in _AXES]
        self._room = self._attribute(most), tuple(map(self._attribute, sizes))
        (self._context,) = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._enter()
        streams = self._cu.CUstream_flags.CU_STREAM_NON_BLOCKING
        (self.stream,) = self._call("cuStreamCreate", streams)

    @property
    def room(self) -> tuple[int, tuple[int, ...]]:
        """Most threads of a block, and most of them along x, y and z."""
        return self._room

    def function(self, code: GpuKernel) -> Any:
        """Return the function of a kernel's PTX, or else of its source."""
        image = code.ptx.encode() if code.ptx else compile_source(code.source, self.architecture)
        self._enter()
        held = ctypes.create_string_buffer(image)  # with a zero behind it, as PTX must have
        (module,) = self._call("cuModuleLoadData", ctypes.addressof(held))
        (function,) = self._call("cuModuleGetFunction", module, code.entry.encode())
        return function

    def memory(self, size: int) -> _Memory:
        """Return memory of the device, of so many bytes; nothing is written there."""
        self._enter()
        (pointer,) = self._call("cuMemAlloc", max(size, 1))
        memory = _Memory(int(pointer))
        finalizer = weakref.finalize(memory, self._cu.cuMemFree, pointer)
        finalizer.atexit = False  # the driver may have gone by then, with all memory
        return memory

    def copied(self, array: Array) -> _Memory:
        """Return memory of the device that holds a copy of an array, to be read alone."""
        held = np.ascontiguousarray(array)
        memory = self.memory(held.nbytes)
        self.write(memory, held)
        return memory

    def part(self, memory: _Memory, offset: int, size: int) -> _Memory:
        """Return a part of memory as memory."""
        return _Memory(memory.address + offset, memory)

    def write(self, memory: _Memory, array: Array) -> None:
        """Copy a contiguous array to the device, after all that was asked of it before."""
        self._enter()
        given = array.ctypes.data, array.nbytes
        # Of pageable memory the driver takes a copy before it returns.
        self._call("cuMemcpyHtoDAsync", memory.address, *given, self.stream)

    def read(self, memory: _Memory, array: Array) -> None:
        """Copy memory of the device to a contiguous array, once all is done that was asked."""
        self._enter()
        self._call(
            "cuMemcpyDtoHAsync", array.ctypes.data, memory.address, array.nbytes, self.stream
        )
        self.wait()

    def launch(self, function: Any, code: GpuKernel, memories: Sequence[_Memory]) -> None:
        """Put a kernel into the stream."""
        self._enter()
        # The driver takes the address of each argument, and copies the arguments at once.
        values = [ctypes.c_uint64(memory.address) for memory in memories]
        places = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        shared_bytes, extra = 0, 0  # shared arrays have their sizes in the source
        self._call(
            "cuLaunchKernel",
            function,
            *code.grid,
            *code.block,
            shared_bytes,
            self.stream,
            ctypes.addressof(places),
            extra,
        )

    def wait(self) -> None:
        """Return once all is done that was asked."""
        self._enter()
        self._call("cuStreamSynchronize", self.stream)

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return a call that asks the device for what `work` asks it for, in one call of its own.

        Python takes some microseconds to launch a kernel, and small ones take no longer to run.
        """
        self._enter()
        modes = self._cu.CUstreamCaptureMode
        self._call("cuStreamBeginCapture", self.stream, modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        try:
            work()
        finally:
            (graph,) = self._call("cuStreamEndCapture", self.stream)
        (made,) = self._call("cuGraphInstantiate", graph, 0)
        return partial(self._launched, made, work)

    def _launched(self, graph: Any, work: Callable[[], None]) -> None:
        """Run what was recorded of some work, which is kept as long: so is the memory it holds."""
        self._enter()
        self._call("cuGraphLaunch", graph, self.stream)

    def seconds(self, work: Callable[[], None], count: int) -> float:
        """Return what some work takes once, of so many times in a row, by events of the stream."""
        self._enter()
        (first,), (last,) = (self._call("cuEventCreate", 0) for _ in range(2))
        try:
            self._call("cuEventRecord", first, self.stream)
            for _ in range(count):
                work()
            self._call("cuEventRecord", last, self.stream)
            self._call("cuEventSynchronize", last)
            (milliseconds,) = self._call("cuEventElapsedTime", first, last)
        finally:
            for event in (first, last):
                self._call("cuEventDestroy", event)
        return float(milliseconds) / 1e3 / count

    def _attribute(self, which: Any) -> int:
        (value,) = self._call("cuDeviceGetAttribute", which, self._device)
        return int(value)

    def _enter(self) -> None:
        """Let this thread's calls mean this device; any thread may be the caller."""
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *arguments: Any) -> Sequence[Any]:
        return _call(self._cu, name, *arguments)


def compile_source(source: str, architecture: int) -> bytes:
    """Return CUDA C compiled for an architecture; no device is needed.

    Parameters
    ----------
    source : str
    architecture : int
        Ten times the compute capability.

    Returns
    -------
    bytes
        Machine code, or PTX where NVRTC is older than the architecture: the driver compiles that.

    Raises
    ------
    CudaError
        The source does not compile.
    DeviceError
        cuda-bindings or NVRTC is not installed.
    """
    nvrtc = _bindings("nvrtc")
    try:
        (known,) = _call(nvrtc, "nvrtcGetSupportedArchs")
    except RuntimeError as error:  # the bindings' way to say that there is no library
        raise DeviceError(
            f"CUDA C needs NVRTC, and it cannot be loaded ({' '.join(str(error).split())}): "
            f"{INSTALL}"
        ) from None
    machine = architecture in known
    newest = architecture if machine else max(n for n in known if n < architecture)
    (program,) = _call(nvrtc, "nvrtcCreateProgram", source.encode(), b"kernel.cu", 0, [], [])
    try:
        option = f"--gpu-architecture={'sm' if machine else 'compute'}_{newest}"
        if nvrtc.nvrtcCompileProgram(program, 1, [option.encode()])[0]:
            log = _read(nvrtc, "ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            raise CudaError(log.strip())
        return _read(nvrtc, "CUBIN" if machine else "PTX", program)
    finally:
        _call(nvrtc, "nvrtcDestroyProgram", program)


def _read(nvrtc: Any, what: str, program: Any) -> bytes:
    (size,) = _call(nvrtc, f"nvrtcGet{what}Size", program)
    held = bytearray(size)
    _call(nvrtc, f"nvrtcGet{what}", program, held)
    return bytes(held)


def _bindings(name: str) -> Any:
    try:
        return import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise DeviceError(
            f"CUDA needs the package cuda-bindings, and it cannot be imported ({error}): {INSTALL}"
        ) from None


def _call(library: Any, name: str, *arguments: Any) -> Sequence[Any]:
    """Return what a function of the driver or of NVRTC gives beside its error code.

    Raises
    ------
    CudaError
        The code is not that of success.
    """
    results: Sequence[Any]
    code, *results = getattr(library, name)(*arguments)
    if code:
        raise CudaError(f"{getattr(code, 'name', code)} in {name}")
    return results


def _start(cu: Any) -> None:
    try:
        _call(cu, "cuInit", 0)
        (count,) = _call(cu, "cuDeviceGetCount")
    except (CudaError, RuntimeError) as error:  # the bindings raise it where there is no driver
        raise DeviceError(
            f"CUDA needs a GPU of NVIDIA's and its driver, and there is none "
            f"({' '.join(str(error).split())}): install the driver, or run the network on another "
            "device."
        ) from None
    if not count:
        raise DeviceError(
            "CUDA needs a GPU of NVIDIA's, and its driver finds none: run the network on another "
            "device."
        )


def _chosen(cu: Any, name: str | None) -> Any:
    (count,) = _call(cu, "cuDeviceGetCount")
    devices = [_call(cu, "cuDeviceGet", number)[0] for number in range(count)]
    if name is None:
        return devices[0]
    if name.isdecimal() and int(name) < count:
        return devices[int(name)]
    for device in devices:
        if not name.isdecimal() and name.lower() in _title(cu, device).lower():
            return device
    names = "; ".join(f"{number}: {_title(cu, device)}" for number, device in enumerate(devices))
    raise DeviceError(
        f"A CUDA device must be one of {names}, and none is called {name!r}: name a number or a "
        "part of one of these."
    )


def _architecture(cu: Any, device: Any) -> int:
    attribute = cu.CUdevice_attribute
    major, minor = (
        _call(cu, "cuDeviceGetAttribute", which, device)[0]
        for which in (
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return 10 * int(major) + int(minor)


def _title(cu: Any, device: Any) -> str:
    (name,) = _call(cu, "cuDeviceGetName", 256, device)
    return f"{name.split(bytes(1))[0].decode().strip()} (CUDA, sm_{_architecture(cu, device)})"
