"""The accelerator as pynq sees it: a driver that an overlay binds by the core's VLNV.

Importing this module imports pynq. ``pynq.Overlay`` does so itself, through the entry point
``pynq.lib``, so that ``Overlay("vdla.bit").vdla_0`` is one of these.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pynq

from vdla.boards import VLNV
from vdla.errors import DeviceError
from vdla.program import Program
from vdla.registers import Register
from vdla.runtime.driver import Driver

from .memory import ContiguousMemory

__all__ = ["VdlaIP"]

_POLL_SECONDS = 0.001
_LOOK_SECONDS = 0.1
"""After it, it is seen whether the interrupt is lost."""
_MISSES = 3
"""One may be a program that ended as it was looked at; a row of them is lost interrupts."""
_RAISED = Register.STATUS.bits("interrupt").mask
_PROGRAMS = 16


class VdlaIP(pynq.DefaultIP):
    """An accelerator in an overlay.

    Parameters
    ----------
    description : dict
        Its entry in ``Overlay.ip_dict``.

    Attributes
    ----------
    driver : Driver
    memory : ContiguousMemory
        For programs and data.

    Raises
    ------
    DeviceError
        What answers at its address is no accelerator that this vdla can drive.
    """

    bindto = [VLNV]

    _missed = 0

    def __init__(self, description: dict[str, Any]) -> None:
        # pynq's interrupts arrive in the event loop that is current when they are made.
        self._loop, self._thread = _event_loop(), threading.get_ident()
        try:
            super().__init__(description)
        except OSError:  # the kernel has no UIO, which interrupts come through: poll
            super().__init__({**description, "interrupts": {}})
        self.memory = ContiguousMemory(self.device)
        pauses = (self._pause, self._pause_async) if self.interrupts else (None, None)
        self.driver = Driver(self.mmio, self.memory, *pauses, programs=_PROGRAMS)

    @property
    def interrupts(self) -> bool:
        """Whether ends of programs are told by interrupt, and not polled for.

        An overlay may be without; and pynq loses them all after an overlay was loaded while an
        interrupt was waited for.
        """
        return getattr(self, "interrupt", None) is not None and self._missed < _MISSES

    @property
    def cycles(self) -> int:
        """Cycles of the last run."""
        return self.driver.cycles

    def counters(self) -> dict[str, dict[str, int]]:
        """Return the last run's events by module."""
        return self.driver.counters()

    def start(self, program: Program, base: int = 0, cycle_limit: int = 0) -> None:
        """Start a program and return at once; see `Driver.start`."""
        self.driver.start(program, base, cycle_limit)

    def wait(self, timeout_s: float = 60.0) -> None:
        """Return once the program has ended; see `Driver.wait`."""
        self.driver.wait(timeout_s)

    async def wait_async(self, timeout_s: float = 60.0) -> None:
        """Return once the program has ended; see `Driver.wait_async`."""
        await self.driver.wait_async(timeout_s)

    def soft_reset(self) -> None:
        """Abandon the run."""
        self.driver.soft_reset()

    def _pause(self, timeout_s: float) -> bool:
        """Wait for the interrupt where its event loop can be run, a moment elsewhere."""
        mine = threading.get_ident() == self._thread
        if not self.interrupts or not mine or self._loop.is_running() or self._loop.is_closed():
            time.sleep(min(timeout_s, _POLL_SECONDS))
            return False
        return self._loop.run_until_complete(self._pause_async(timeout_s))

    async def _pause_async(self, timeout_s: float) -> bool:
        if not self.interrupts or asyncio.get_running_loop() is not self._loop:
            await asyncio.sleep(min(timeout_s, _POLL_SECONDS))
            return False
        try:
            await asyncio.wait_for(self.interrupt.wait(), min(timeout_s, _LOOK_SECONDS))
        except asyncio.TimeoutError:
            self._missed += bool(self.driver.read(Register.STATUS) & _RAISED)
            return False
        except RuntimeError as error:  # pynq's controllers are of the overlay loaded last
            raise DeviceError(
                f"An overlay must stay loaded while its accelerator is used, and its interrupt is "
                f"gone ({error}): open the device again."
            ) from error
        self._missed = 0
        return True


def _event_loop() -> asyncio.AbstractEventLoop:
    """Return the current event loop, made if there is none: ``asyncio.run`` leaves none behind."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        pass
    try:
        return asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop
