"""A board under PYNQ as a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from vdla.config import Config
from vdla.errors import DeviceError
from vdla.program import Program
from vdla.runtime.board.overlay import OpenOverlay, open_overlay
from vdla.runtime.device import Bytes, Counters, LayerCounters
from vdla.runtime.driver import Driver
from vdla.runtime.streams import bytes_moved, most_cycles

__all__ = ["PynqDevice"]

_WAITING = ("memory", "pop_prev", "pop_next", "push")
_SLOWER = 4
"""A board's memory, shared with its processor, against the reference memory."""
_SPARE_SECONDS = 10.0


class PynqDevice:
    """Runs programs on a board's accelerator, in memory that pynq allocates.

    `launch` returns when the program has started. Until `wait` returns, memory that the program
    does not use may be written and read.

    Parameters
    ----------
    config : Config
        What the overlay must be of.
    images : int
        1: hardware has one memory.
    overlay : str or Path, optional
        A bitstream, a folder with one, or a board's name.
    device : pynq.Device, optional

    Raises
    ------
    DeviceError, OverlayError
        See `open_overlay`.
    """

    def __init__(
        self,
        config: Config,
        images: int = 1,
        *,
        overlay: str | Path | None = None,
        device: Any = None,
    ) -> None:
        if images != 1:
            raise DeviceError(f"A board must run one pass at a time, not {images}: run them apart.")
        self.images = images
        self._opened: OpenOverlay | None = open_overlay(overlay, config, device)
        self.config = config.replace(name=config.name, clock_mhz=self._opened.clock_mhz)
        self._counters = Counters()
        self._limits: WeakKeyDictionary[Program, int] = WeakKeyDictionary()
        self._program: Program | None = None

    @property
    def opened(self) -> OpenOverlay:
        """The overlay, its accelerator, its manifest and its clock.

        Raises
        ------
        DeviceError
            The device is closed.
        """
        if self._opened is None:
            raise DeviceError("A device must be open to be used, and this one is closed: open one.")
        return self._opened

    @property
    def driver(self) -> Driver:
        """What reads and writes the accelerator's registers."""
        driver: Driver = self.opened.ip.driver
        return driver

    def allocate(self, nbytes: int, align: int = 4096) -> int:
        """Reserve zeroed memory and return its address.

        Raises
        ------
        DeviceError
            There is not enough contiguous memory.
        """
        return int(self.opened.ip.memory.allocate(nbytes, align))

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into memory: (nbytes,) or (1, nbytes)."""
        self.opened.ip.memory.write(address, data)

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return a copy of memory, (1, nbytes)."""
        found: Bytes = self.opened.ip.memory.read(address, nbytes)
        return found[None]

    def launch(self, program: Program, base: int = 0) -> None:
        """Start a program whose address 0 is `base`, and return at once.

        Raises
        ------
        DeviceError
            The program is for another configuration, or the overlay is not loaded any more.
        """
        opened = self.opened
        opened.require_loaded()
        driver = opened.ip.driver
        driver.check()
        driver.start(program, base, self._limit(program))
        self._program = program

    def wait(self) -> None:
        """Return once the program has ended.

        Raises
        ------
        ProgramError
            It is illegal or does not end.
        DeviceError
            The bus refused an access, or the board does not answer.
        """
        program = self._program
        if program is None:
            return
        self._program = None
        opened = self.opened
        driver = opened.ip.driver
        seconds = self._limit(program) / (opened.clock_mhz * 1e6)
        driver.wait(seconds + _SPARE_SECONDS)
        cycles = driver.cycles
        events = driver.counters()
        waiting = {k: n for k, n in events["compute"].items() if k in _WAITING}
        layers = {}
        if len(program.labels) == 1:  # the hardware counts whole programs
            moved = int(bytes_moved(program).sum())
            layers = {program.labels[0]: LayerCounters(cycles, moved, waiting)}
        self._counters = Counters(cycles, layers, events=events)

    def counters(self) -> Counters:
        """Return what the hardware counted in the last program."""
        return self._counters

    def close(self) -> None:
        """Abandon a program that runs, free the memory, and let others have the board."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        try:
            if self._program is not None:
                opened.ip.soft_reset()
        finally:
            opened.ip.memory.close()
            opened.lock.release()

    def _limit(self, program: Program) -> int:
        """Return the cycles after which a program is taken not to end; looked up once for each."""
        if program not in self._limits:
            self._limits[program] = _SLOWER * most_cycles(program)
        return self._limits[program]
