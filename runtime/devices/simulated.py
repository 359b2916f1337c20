"""What the simulators share: memories in numpy, and the account of processor time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from vdla.config import Config
from vdla.errors import DeviceError
from vdla.program import Program
from vdla.runtime.device import Bytes, Counters

__all__ = ["SimulatedDevice"]

_MOST_BYTES = 1 << 32
"""What the 30 bits of an address reach with elements of 4 bytes."""


class SimulatedDevice(ABC):
    """A simulator with a memory for each image.

    Parameters
    ----------
    config : Config
    images : int
    """

    def __init__(self, config: Config, images: int = 1) -> None:
        if images < 1:
            raise DeviceError(f"A device must run on at least one image, not {images}.")
        self.config = config
        self.images = images
        self._memory = np.zeros((images, 0), np.uint8)
        self._counters = Counters()

    def allocate(self, nbytes: int, align: int = 4096) -> int:
        """Reserve zeroed memory and return its address."""
        address = -(-self._memory.shape[1] // align) * align
        if address + nbytes > _MOST_BYTES:
            raise DeviceError(
                f"Memory must end below {_MOST_BYTES} bytes, what addresses reach, not at "
                f"{address + nbytes}: run a smaller network."
            )
        grown = np.zeros((self.images, address + nbytes), np.uint8)
        grown[:, : self._memory.shape[1]] = self._memory
        self._memory = grown
        return address

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into memory: (nbytes,) into that of every image, or (images, nbytes)."""
        self._span(address, data.shape[-1])[...] = data

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return a copy of memory, (images, nbytes)."""
        return self._span(address, nbytes).copy()

    def launch(self, program: Program, base: int = 0) -> None:
        """Run a program to its end."""
        if program.config.hash != self.config.hash:
            raise DeviceError(
                f"A program must be for the device's configuration, {self.config.name} (hash "
                f"{self.config.hash:016x}), not for {program.config.name} (hash "
                f"{program.config.hash:016x}): compile it again."
            )
        begin = time.process_time()
        counters = self._simulate(program, base)
        self._counters = replace(counters, cpu_seconds=time.process_time() - begin)

    def wait(self) -> None:  # noqa: B027 - nothing is left to do, for any simulator
        """Return at once: `launch` has waited."""

    def close(self) -> None:  # noqa: B027 - numpy frees its memory by itself
        """Do nothing: a simulator in Python holds nothing else."""

    def counters(self) -> Counters:
        """Return what was counted in the last program."""
        return self._counters

    @abstractmethod
    def _simulate(self, program: Program, base: int) -> Counters:
        """Run a program on ``self._memory`` and return what was counted."""

    def _span(self, address: int, nbytes: int) -> Bytes:
        size = self._memory.shape[1]
        if not 0 <= address <= address + nbytes <= size:
            raise DeviceError(
                f"Transfers must stay within the {size} bytes that are allocated, not reach "
                f"{address}..{address + nbytes}."
            )
        return self._memory[:, address : address + nbytes]
