"""The contract between the runtime and what runs programs: an accelerator with its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.program import Program

__all__ = ["Bytes", "Counters", "Device", "LayerCounters"]

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class LayerCounters:
    """A layer's share of a program.

    Attributes
    ----------
    cycles : int
        From the last completed store of the layer before to its own.
    dram_bytes : int
        Read and written by its loads and stores.
    waiting : dict of str to int
        Cycles of the compute module by cause, the busy ones left out.
    """

    cycles: int
    dram_bytes: int
    waiting: Mapping[str, int]


@dataclass(frozen=True)
class Counters:
    """What a device counted in its last program.

    Attributes
    ----------
    cycles : int or None
        From the start bit to the done bit; None where time has no meaning.
    layers : mapping of str to LayerCounters
        By label; empty where time has no meaning.
    cpu_seconds : float
        Processor time that a simulator took.
    events : mapping of str to mapping of str to int
        Cycles by module and event, and ``instructions``; empty where time has no meaning. The
        hardware and the cycle model draw the line between two kinds of waiting each in its own
        place; ``instructions``, and what load and compute are ``busy``, they count alike.
    """

    cycles: int | None = None
    layers: Mapping[str, LayerCounters] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    events: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class Device(Protocol):
    """An accelerator of one configuration.

    A simulator may run a program on several images at once: each has a memory of its own, and
    ``images`` says how many. Hardware has one.
    """

    @property
    def config(self) -> Config:
        """What programs must be encoded for."""

    @property
    def images(self) -> int:
        """Memories that a program runs on."""

    def allocate(self, nbytes: int, align: int = 4096) -> int:
        """Reserve memory and return its address.

        Raises
        ------
        DeviceError
            There is not enough.
        """

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into memory: (nbytes,) into that of every image, or (images, nbytes)."""

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return a copy of memory, (images, nbytes)."""

    def launch(self, program: Program, base: int = 0) -> None:
        """Start a program whose address 0 is `base`.

        Raises
        ------
        DeviceError
            The program is for another configuration.
        ProgramError
            The program is illegal or does not end.
        """

    def wait(self) -> None:
        """Return once the program has ended."""

    def counters(self) -> Counters:
        """Return what was counted in the last program."""

    def close(self) -> None:
        """Free what the device holds; it takes no program any more."""
