"""A stand-in for NVIDIA's driver: its functions, with kernels that run on the processor.

It has the signatures of `cuda.bindings.driver`. Memory of the device is memory here, with guards
around each allocation, and a kernel is given only what is allocated. Modules are not machine code
but CUDA C, which a compiler of C++ reads.
"""

from __future__ import annotations

import ctypes
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

from tests.runtime.fibres import Compiled, compiled

__all__ = ["Driver"]

GUARD = 256


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_LAUNCH_FAILED = 719


class CUdevice_attribute(Enum):  # noqa: N801 (as the binding calls it)
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76


class CUstream_flags(Enum):  # noqa: N801
    CU_STREAM_DEFAULT = 0
    CU_STREAM_NON_BLOCKING = 1


class CUstreamCaptureMode(Enum):
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1


OK = (CUresult.CUDA_SUCCESS,)
BAD = (CUresult.CUDA_ERROR_INVALID_VALUE,)


class Driver:
    """The functions, over devices of the given names."""

    CUdevice_attribute, CUstream_flags = CUdevice_attribute, CUstream_flags
    CUstreamCaptureMode = CUstreamCaptureMode

    def __init__(self, folder: Path, *names: str, memory: int = 1 << 30) -> None:
        self._folder, self._names = folder, names
        self._attributes = dict(zip(CUdevice_attribute, (1024, 1024, 1024, 64, 9, 0), strict=True))
        self._left = memory
        self._current: object = None
        self._loaded = 0
        self.allocated: dict[int, Any] = {}
        self.launched: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.fails = False
        self._recorded: list[tuple[Any, ...]] | None = None
        self._events: dict[int, int | None] = {}

    def cuInit(self, flags: int) -> tuple[Any, ...]:  # noqa: N802
        assert flags == 0
        return OK

    def cuDeviceGetCount(self) -> tuple[Any, ...]:  # noqa: N802
        return (*OK, len(self._names))

    def cuDeviceGet(self, number: int) -> tuple[Any, ...]:  # noqa: N802
        return (*OK, number)

    def cuDeviceGetName(self, room: int, device: int) -> tuple[Any, ...]:  # noqa: N802
        return (*OK, self._names[device].encode().ljust(room, b"\0"))

    def cuDeviceGetAttribute(self, which: Any, device: int) -> tuple[Any, ...]:  # noqa: N802
        return (*OK, self._attributes[which])

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:  # noqa: N802
        return (*OK, f"context of {device}")

    def cuCtxSetCurrent(self, context: object) -> tuple[Any, ...]:  # noqa: N802
        self._current = context
        return OK

    def cuStreamCreate(self, flags: CUstream_flags) -> tuple[Any, ...]:  # noqa: N802
        self._in_context()
        return (*OK, "stream")

    def cuStreamSynchronize(self, stream: object) -> tuple[Any, ...]:  # noqa: N802
        assert stream == "stream"
        return (CUresult.CUDA_ERROR_LAUNCH_FAILED,) if self.fails else OK

    def cuMemAlloc(self, size: int) -> tuple[Any, ...]:  # noqa: N802
        self._in_context()
        if size > self._left:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0
        assert size > 0
        self._left -= size
        # No kernel must rely on what was there.
        held = ctypes.create_string_buffer(b"\xa5" * (size + 2 * GUARD))
        address = ctypes.addressof(held) + GUARD
        self.allocated[address] = (held, size)
        return (*OK, address)

    def cuMemFree(self, address: int) -> tuple[Any, ...]:  # noqa: N802
        held, size = self.allocated.pop(address)
        self._left += size
        ends = held.raw[:GUARD], held.raw[GUARD + size : 2 * GUARD + size]
        assert set(b"".join(ends)) == {0xA5}, "written beside an array"
        return OK

    def cuMemcpyHtoDAsync(  # noqa: N802
        self, to: int, source: int, size: int, stream: object
    ) -> tuple[Any, ...]:
        return self._copied(to, source, size, to, stream)

    def cuMemcpyDtoHAsync(  # noqa: N802
        self, to: int, source: int, size: int, stream: object
    ) -> tuple[Any, ...]:
        return self._copied(to, source, size, source, stream)

    def cuModuleLoadData(self, image: int) -> tuple[Any, ...]:  # noqa: N802
        self._in_context()
        return (*OK, ctypes.string_at(image).decode())

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[Any, ...]:  # noqa: N802
        if f"void {name.decode()}(" not in module:
            return CUresult.CUDA_ERROR_NOT_FOUND, None
        self._loaded += 1
        return (*OK, compiled(module, name.decode(), self._folder / str(self._loaded)))

    def cuLaunchKernel(  # noqa: N802
        self,
        function: Compiled,
        *given: Any,
    ) -> tuple[Any, ...]:
        self._in_context()
        if self._recorded is not None:
            *sizes, _, _, parameters, _ = given
            self._recorded.append((function, sizes, self._addresses(function, parameters)))
            return OK
        *sizes, shared_bytes, stream, parameters, extra = given
        assert (len(sizes), shared_bytes, stream, extra) == (6, 0, "stream", 0)
        self._run(function, sizes, self._addresses(function, parameters))
        return OK

    def cuStreamBeginCapture(self, stream: object, mode: Enum) -> tuple[Any, ...]:  # noqa: N802
        assert (stream, self._recorded) == ("stream", None)
        self._recorded = []
        return OK

    def cuStreamEndCapture(self, stream: object) -> tuple[Any, ...]:  # noqa: N802
        graph, self._recorded = self._recorded, None
        return (*OK, graph)

    def cuGraphInstantiate(self, graph: object, flags: int) -> tuple[Any, ...]:  # noqa: N802
        return (*OK, graph)

    def cuGraphLaunch(self, graph: list[Any], stream: object) -> tuple[Any, ...]:  # noqa: N802
        self._in_context()
        for launch in graph:
            self._run(*launch)
        return OK

    def cuEventCreate(self, flags: int) -> tuple[Any, ...]:  # noqa: N802
        self._events[len(self._events)] = None
        return (*OK, len(self._events) - 1)

    def cuEventRecord(self, event: int, stream: object) -> tuple[Any, ...]:  # noqa: N802
        self._events[event] = len(self.launched)
        return OK

    def cuEventSynchronize(self, event: int) -> tuple[Any, ...]:  # noqa: N802
        assert self._events[event] is not None
        return OK

    def cuEventElapsedTime(self, first: int, last: int) -> tuple[Any, ...]:  # noqa: N802
        begin, end = self._events[first], self._events[last]
        assert begin is not None
        assert end is not None
        return (*OK, 2.0 * (end - begin))  # a launch takes two milliseconds

    def cuEventDestroy(self, event: int) -> tuple[Any, ...]:  # noqa: N802
        self._events[event] = None
        return OK

    def _run(self, function: Compiled, sizes: Any, addresses: Any) -> None:
        self.launched.append((tuple(sizes[:3]), tuple(sizes[3:])))
        function(sizes[:3], sizes[3:], addresses)

    def _addresses(self, function: Compiled, parameters: int) -> list[int]:
        """Read the parameters: pointers to the arguments, each an address of 64 bits."""
        places = (ctypes.c_void_p * function.count).from_address(parameters)
        addresses = [ctypes.c_uint64.from_address(place).value for place in places]
        for address in addresses:
            assert any(a <= address < a + size for a, (_, size) in self.allocated.items())
        return addresses

    def _in_context(self) -> None:
        assert self._current is not None, "no context is current"

    def _copied(
        self, to: int, source: int, size: int, there: int, stream: object
    ) -> tuple[Any, ...]:
        self._in_context()
        assert stream == "stream"
        if not any(a <= there and there + size <= a + n for a, (_, n) in self.allocated.items()):
            return BAD
        ctypes.memmove(to, source, size)
        return OK
