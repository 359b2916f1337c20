"""Programs in memory that the accelerator fetches from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError
from vdla.program import Program

__all__ = ["Instructions", "Memory"]


class Memory(Protocol):
    """Memory that the accelerator can reach."""

    def allocate(self, nbytes: int, align: int = 4096) -> int:
        """Reserve memory and return its address."""

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes into memory, where the accelerator sees them."""

    def free(self, address: int) -> None:
        """Give back what was reserved."""


@dataclass
class _Slot:
    address: int
    nbytes: int
    program: Program | None = None


class Instructions:
    """The programs that ran last, so that a network's programs are written once.

    Parameters
    ----------
    memory : Memory
    most : int
        Programs kept; the one that ran longest ago makes room.
    """

    def __init__(self, memory: Memory, most: int = 1) -> None:
        self._memory = memory
        self._most = most
        self._slots: list[_Slot] = []  # in the order of their last use

    def place(self, program: Program) -> int:
        """Return the address of a program's instructions, written there if they were not.

        Raises
        ------
        DeviceError
            There is no memory for them, not even without the other programs.
        """
        for slot in self._slots:
            if slot.program is program:
                break
        else:
            data = program.instructions.astype("<u8").view(np.uint8).reshape(-1)
            slot = self._slot(len(data))
            slot.program = None  # what an interrupted write leaves is neither program
            self._memory.write(slot.address, data)
            slot.program = program
        self._slots = [other for other in self._slots if other is not slot] + [slot]
        return slot.address

    def forget(self) -> None:
        """Write every program again before it runs, whose memory may hold other things now."""
        for slot in self._slots:
            slot.program = None

    def _slot(self, nbytes: int) -> _Slot:
        if len(self._slots) >= self._most:
            oldest = self._slots[0]
            if oldest.nbytes >= nbytes:
                return oldest
            self._drop()
        while True:
            try:
                made = _Slot(self._memory.allocate(nbytes), nbytes)
            except DeviceError:
                if not self._slots:
                    raise
                self._drop()
            else:
                self._slots.append(made)
                return made

    def _drop(self) -> None:
        self._memory.free(self._slots.pop(0).address)
