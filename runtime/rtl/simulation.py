"""One simulated accelerator with its memory, driven through the harness's C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import DeviceError

__all__ = ["MODULES", "MemorySettings", "Simulation"]

MODULES = ("load", "compute", "store")
"""In the order of the bits of ``trace_start`` and ``trace_finish``."""

OKAY, SLVERR, DECERR = 0, 2, 3
_INTERRUPTED, _VIOLATED = 1, 2
_CHUNK_CYCLES = 1_000_000
"""Simulated without a look at the keyboard: about a second."""


@dataclass(frozen=True, kw_only=True)
class MemorySettings:
    """How the memory behaves.

    Parameters
    ----------
    latency_cycles, outstanding, longest_burst : int
        The reference memory's, and the longest burst that is legal.
    pace : tuple of int
        What a channel earns in a cycle, and what a beat costs.
    seed : int
        Other than 0: every channel stalls at random.
    errors : tuple of int, optional
        First byte and the byte past the last of memory that answers with an error.
    error_response : int
        SLVERR or DECERR.
    """

    latency_cycles: int
    outstanding: int
    longest_burst: int
    pace: tuple[int, int] = (1, 1)
    seed: int = 0
    errors: tuple[int, int] = (0, 0)
    error_response: int = SLVERR

    @classmethod
    def of(
        cls, config: Config, *, seed: int = 0, errors: tuple[int, int] = (0, 0)
    ) -> MemorySettings:
        """Return the reference memory of a configuration."""
        return cls(
            latency_cycles=config.dram_latency_cycles,
            outstanding=config.axi_outstanding,
            longest_burst=config.axi_burst_beats,
            pace=config.dram_pace,
            seed=seed,
            errors=errors,
        )


class _Settings(ctypes.Structure):
    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("error_begin", ctypes.c_uint64),
        ("error_end", ctypes.c_uint64),
        ("error_response", ctypes.c_uint32),
        ("latency", ctypes.c_uint32),
        ("outstanding", ctypes.c_uint32),
        ("longest_burst", ctypes.c_uint32),
        ("earned", ctypes.c_uint32),
        ("cost", ctypes.c_uint32),
    )


_HANDLE, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_SIGNATURES: dict[str, tuple[object, Sequence[object]]] = {
    "vdla_open": (_HANDLE, ()),
    "vdla_close": (None, (_HANDLE,)),
    "vdla_beat_bytes": (_U32, ()),
    "vdla_configure": (None, (_HANDLE, ctypes.POINTER(_Settings))),
    "vdla_clear_regions": (None, (_HANDLE,)),
    "vdla_add_region": (None, (_HANDLE, _U64, _U64, ctypes.c_void_p)),
    "vdla_reset": (None, (_HANDLE,)),
    "vdla_run": (ctypes.c_int, (_HANDLE, _U64, ctypes.c_bool)),
    "vdla_read_register": (ctypes.c_int, (_HANDLE, _U32, ctypes.POINTER(_U32))),
    "vdla_write_register": (ctypes.c_int, (_HANDLE, _U32, _U32, _U32)),
    "vdla_cycle": (_U64, (_HANDLE,)),
    "vdla_interrupt_cycle": (_U64, (_HANDLE,)),
    "vdla_violation": (ctypes.c_char_p, (_HANDLE,)),
    "vdla_memory_idle": (ctypes.c_bool, (_HANDLE,)),
    "vdla_clear_logs": (None, (_HANDLE,)),
    "vdla_log": (_U64, (_HANDLE, _U32, _U32, ctypes.c_void_p, _U64)),
    "vdla_waves": (ctypes.c_bool, (_HANDLE, ctypes.c_char_p)),
    "vdla_window": (None, (_HANDLE, _U64, _U64, _U64)),
    "vdla_write_coverage": (ctypes.c_bool, (_HANDLE, ctypes.c_char_p)),
}


class Simulation:
    """A library that `vdla.runtime.rtl.build` made, opened and reset.

    It reads and writes the accelerator's registers as a board's memory-mapped I/O does; each
    access takes the cycles that it takes on the bus.

    Parameters
    ----------
    library : Path
    settings : MemorySettings

    Raises
    ------
    DeviceError
        From any method: the accelerator broke a rule of AXI.
    """

    def __init__(self, library: Path, settings: MemorySettings) -> None:
        self._library = ctypes.CDLL(str(library))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self._handle = self._library.vdla_open()
        self._regions: dict[int, NDArray[np.uint8]] = {}
        self.configure(settings)
        self._library.vdla_reset(self._handle)

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the machine, and finish the file of its waves."""
        if self._handle is not None:
            self._library.vdla_close(self._handle)
            self._handle = None

    def configure(self, settings: MemorySettings) -> None:
        """Change how the memory behaves."""
        chosen = _Settings(
            settings.seed,
            *settings.errors,
            settings.error_response,
            settings.latency_cycles,
            settings.outstanding,
            settings.longest_burst,
            *settings.pace,
        )
        self._library.vdla_configure(self._handle, ctypes.byref(chosen))

    def map(self, address: int, memory: NDArray[np.uint8]) -> None:
        """Put an array at an address, in place of what was there; it is read and written in place.

        Raises
        ------
        DeviceError
            The array is not contiguous and writable.
        """
        if not (memory.flags.c_contiguous and memory.flags.writeable):
            raise DeviceError("Simulated memory must be a contiguous and writable array.")
        self._regions[address] = memory
        self._library.vdla_clear_regions(self._handle)
        for begin, array in self._regions.items():
            self._library.vdla_add_region(self._handle, begin, array.nbytes, array.ctypes.data)

    def transfer(self, offset: int, value: int | None = None, strobe: int = 15) -> tuple[int, int]:
        """Read a register, or write `value` to it; return what was read and the response."""
        data = ctypes.c_uint32(0)
        if value is None:
            response = self._library.vdla_read_register(self._handle, offset, ctypes.byref(data))
        else:
            response = self._library.vdla_write_register(self._handle, offset, value, strobe)
        self._check()
        if response < 0:
            raise DeviceError(f"A register must answer, and offset {offset:#x} does not.")
        return data.value, response

    def read(self, offset: int) -> int:
        """Return a register's 32 bits."""
        value, response = self.transfer(offset)
        self._okay(offset, response)
        return value

    def write(self, offset: int, value: int) -> None:
        """Write a register's 32 bits."""
        _, response = self.transfer(offset, value)
        self._okay(offset, response)

    def run(self, cycles: int) -> None:
        """Let time pass."""
        self._library.vdla_run(self._handle, cycles, False)
        self._check()

    def run_to_interrupt(self, cycles: int) -> bool:
        """Let time pass until the interrupt is high; return whether it came within `cycles`."""
        while cycles > 0:
            outcome = self._library.vdla_run(self._handle, min(cycles, _CHUNK_CYCLES), True)
            self._check()
            if outcome == _INTERRUPTED:
                return True
            cycles -= _CHUNK_CYCLES
        return False

    @property
    def cycle(self) -> int:
        """Cycles since the machine was opened."""
        return int(self._library.vdla_cycle(self._handle))

    @property
    def interrupt_cycle(self) -> int:
        """The cycle in which the interrupt last rose."""
        return int(self._library.vdla_interrupt_cycle(self._handle))

    @property
    def memory_idle(self) -> bool:
        """Whether no burst is under way."""
        return bool(self._library.vdla_memory_idle(self._handle))

    @property
    def beat_bytes(self) -> int:
        """Width of the memory port."""
        return int(self._library.vdla_beat_bytes())

    def clear_logs(self) -> None:
        """Forget starts and finishes."""
        self._library.vdla_clear_logs(self._handle)

    def log(self, module: int, *, finishes: bool) -> NDArray[np.int64]:
        """Return the cycles in which a module started, or finished, its instructions."""
        count = self._library.vdla_log(self._handle, finishes, module, None, 0)
        cycles = np.empty(count, np.uint64)
        self._library.vdla_log(self._handle, finishes, module, cycles.ctypes.data, count)
        return cycles.astype(np.int64)

    def waves(self, path: Path) -> None:
        """Open a file for signals; `window` says when they are written.

        Raises
        ------
        DeviceError
            The library was built without them, or the file cannot be written.
        """
        if not self._library.vdla_waves(self._handle, str(path).encode()):
            raise DeviceError(
                f"Waves need a library that was built with the option vcd or fst, and a file that "
                f"can be written, not {path}."
            )

    def window(self, begin: int, end: int, zero: int = 0) -> None:
        """Write signals in the cycles from `begin` up to `end`, or until the interrupt rises.

        The clock of cycle ``zero + n`` falls at time 2n, and rises at 2n + 1.
        """
        self._library.vdla_window(self._handle, begin, end, zero)

    def write_coverage(self, path: Path) -> None:
        """Write which lines of the design have run, for ``verilator_coverage``.

        Raises
        ------
        DeviceError
            The library was built without it.
        """
        if not self._library.vdla_write_coverage(self._handle, str(path).encode()):
            raise DeviceError("Coverage needs a library that was built with the option coverage.")

    def _check(self) -> None:
        violation = self._library.vdla_violation(self._handle)
        if violation:
            raise DeviceError(f"The accelerator broke a rule of AXI in {violation.decode()}.")

    def _okay(self, offset: int, response: int) -> None:
        if response != OKAY:
            raise DeviceError(
                f"A register must exist and not be locked by a run: offset {offset:#x} answered "
                f"with error {response}."
            )
