"""Memory that is contiguous for the accelerator: pynq's buffers, and what of them is in step."""

from __future__ import annotations

import bisect
from pathlib import Path
from typing import Any

import numpy as np

from vdla.errors import DeviceError
from vdla.runtime.device import Bytes

__all__ = ["ContiguousMemory", "free_bytes"]

MEMINFO = Path("/proc/meminfo")
_PAGE = 4096
_MIB = 1 << 20


def free_bytes(meminfo: Path | None = None) -> tuple[int, int] | None:
    """Return how much contiguous memory is free, and how much there is; None where Linux says none.

    Both are of the kernel's contiguous memory allocator, which pynq's buffers come from.
    """
    try:
        lines = (meminfo or MEMINFO).read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = {name: value for name, _, value in (line.partition(":") for line in lines)}
    if "CmaFree" not in sizes:
        return None
    free, total = (int(sizes[name].split()[0]) << 10 for name in ("CmaFree", "CmaTotal"))
    return free, total


class ContiguousMemory:
    """Buffers of a board by address.

    What is written is in the accelerator's sight at once, and what is read is what it has written:
    caches are cleaned or invalidated over exactly those bytes.

    Parameters
    ----------
    device : pynq.Device
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._buffers: dict[int, Any] = {}
        self._addresses: list[int] = []  # sorted

    def allocate(self, nbytes: int, align: int = _PAGE) -> int:
        """Reserve zeroed memory and return its address.

        Raises
        ------
        DeviceError
            There is not enough.
        """
        import pynq

        room = max(nbytes, 1) + (align - _PAGE if align > _PAGE else 0)
        room = -(-room // _PAGE) * _PAGE
        there = free_bytes()
        if there is not None and room > there[0]:
            raise DeviceError(_short(room, there))
        try:
            buffer = pynq.allocate((room,), dtype=np.uint8, target=self._device)
        except Exception as error:  # XRT's, and pynq's for a board without an overlay
            raise DeviceError(_short(room, there, error)) from error
        buffer[:] = 0
        buffer.sync_to_device()
        first = int(buffer.device_address)
        address = -(-first // align) * align
        if address + nbytes > first + room:
            buffer.freebuffer()
            raise DeviceError(
                f"Contiguous memory must start at a multiple of {_PAGE} bytes, not at {first:#x}: "
                "this board's pynq allocates it another way; please report it."
            )
        self._buffers[address] = buffer[address - first : address - first + nbytes], buffer
        bisect.insort(self._addresses, address)
        return address

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes, (nbytes,), into memory."""
        part = self._span(address, data.shape[-1])
        part[:] = data.reshape(-1)
        part.sync_to_device()

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return a copy of memory, (nbytes,)."""
        part = self._span(address, nbytes)
        part.sync_from_device()
        return np.array(part, subok=False)

    def free(self, address: int) -> None:
        """Give back what `allocate` reserved."""
        self._addresses.remove(address)
        _, buffer = self._buffers.pop(address)
        buffer.freebuffer()

    def close(self) -> None:
        """Give back everything."""
        for address in list(self._addresses):
            self.free(address)

    def _span(self, address: int, nbytes: int) -> Any:
        index = bisect.bisect_right(self._addresses, address) - 1
        if index >= 0:
            start = self._addresses[index]
            part, _ = self._buffers[start]
            if address + nbytes <= start + part.nbytes:
                return part[address - start : address - start + nbytes]
        raise DeviceError(
            f"Transfers must stay within a buffer that is allocated and not freed, and "
            f"{address:#x}..{address + nbytes:#x} does not: open the device again if it was closed."
        )


def _short(room: int, there: tuple[int, int] | None, error: Exception | None = None) -> str:
    free = "" if there is None else f", and {_mib(there[0])} of {_mib(there[1])} are free"
    said = "" if error is None else f" ({error})"
    return (
        f"Contiguous memory must have room for what a network needs: {_mib(room)} are asked "
        f"for{free}{said}: end other processes and notebooks that hold pynq's buffers, or reserve "
        "more at boot with the kernel argument cma=256M."
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / _MIB:.1f} MiB"
