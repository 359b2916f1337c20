"""The driver of the accelerator's registers: the same for a board and for the RTL in process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from vdla.config import Config
from vdla.errors import DeviceError, ProgramError, VdlaError
from vdla.program import Program
from vdla.registers import BASES, COUNTERS, Register
from vdla.runtime.faults import Fault, dump
from vdla.runtime.identity import Identity
from vdla.runtime.instructions import Instructions, Memory

__all__ = ["Driver", "Mmio"]

_FIRST_POLL_SECONDS, _POLL_SECONDS = 0.00005, 0.001
"""Polls are further and further apart: a short program is seen soon, a long one costs little."""

_STATUS = {bits.name: bits.mask for bits in Register.STATUS.fields}
_ENDED = _STATUS["done"] | _STATUS["error"]
_UNDERWAY = _STATUS["running"] | _STATUS["resetting"]


class Mmio(Protocol):
    """Registers by byte offset, 32 bits each; `pynq.MMIO` is one."""

    def read(self, offset: int) -> int:
        """Return a register."""

    def write(self, offset: int, value: int) -> None:
        """Write a register."""


class Driver:
    """One accelerator.

    Parameters
    ----------
    mmio : Mmio
    memory : Memory
        Programs are put there.
    interrupt : callable, optional
        Waits for the interrupt for some seconds at most and returns whether it came. Without one,
        the status is polled.
    interrupt_async : callable, optional
        The same for `wait_async`, as a coroutine.
    programs : int
        Kept in memory at once.

    Raises
    ------
    DeviceError
        What answers is no accelerator, or one with other registers.
    """

    def __init__(
        self,
        mmio: Mmio,
        memory: Memory,
        interrupt: Callable[[float], bool] | None = None,
        interrupt_async: Callable[[float], Awaitable[bool]] | None = None,
        *,
        programs: int = 1,
    ) -> None:
        self._mmio = mmio
        self._interrupt = interrupt
        self._interrupt_async = interrupt_async
        self._instructions = Instructions(memory, programs)
        self._program: Program | None = None
        self.identity = Identity.read(self.read)

    def read(self, register: Register) -> int:
        """Return a register, both its words if it has two, even while it counts.

        Raises
        ------
        DeviceError
            It cannot be read.
        """
        if register.words == 1:
            return self._word(register)
        high = self._word(register, 1)
        while True:
            low = self._word(register)
            again = self._word(register, 1)
            if again == high:
                return high << 32 | low
            high = again

    def write(self, register: Register, value: int) -> None:
        """Write a register, both its words if it has two.

        Raises
        ------
        DeviceError
            It cannot be written.
        """
        for word in range(register.words):
            with _access(register, "writing"):
                self._mmio.write(register + 4 * word, value >> 32 * word & 0xFFFFFFFF)

    def _word(self, register: Register, word: int = 0) -> int:
        with _access(register, "reading"):
            return self._mmio.read(register + 4 * word)

    def require(self, config: Config) -> None:
        """Refuse what is compiled for another configuration.

        Raises
        ------
        DeviceError
            Names both configurations.
        """
        self.identity.require(config)

    def check(self) -> None:
        """Look whether the accelerator is still the one that it was.

        Raises
        ------
        DeviceError
            Something else answers, or nothing: another overlay is loaded, or the board is off.
        """
        now = Identity.read(self.read)
        if now != self.identity:
            raise DeviceError(
                f"An accelerator must stay the one that was opened, of hash "
                f"{self.identity.hash:016x}, and one of hash {now.hash:016x} answers: another "
                "overlay was loaded; open the device again."
            )

    def start(self, program: Program, base: int = 0, cycle_limit: int = 0) -> None:
        """Set up a run and start it.

        Parameters
        ----------
        program : Program
        base : int
            Address of element 0 of every memory type.
        cycle_limit : int
            Longest run; 0 for none.

        Raises
        ------
        DeviceError
            The program is for another configuration, or lies where the bus does not reach.
        """
        self.require(program.config)
        if self.read(Register.STATUS) & _STATUS["running"]:  # of someone who was killed
            self.soft_reset()
        instructions = self._instructions.place(program)
        for address in (instructions, base):
            if address >> program.config.address_bits:
                raise DeviceError(
                    f"Addresses must have at most the {program.config.address_bits} bits of "
                    f"{program.config.name}'s bus, and {address:#x} has more: reserve contiguous "
                    "memory lower down."
                )
        self._program = program
        self.write(Register.INSTRUCTION_BASE, instructions)
        self.write(Register.INSTRUCTION_COUNT, _executed(program))
        self.write(Register.CYCLE_LIMIT, cycle_limit)
        for register in BASES.values():
            self.write(register, base)
        control = Register.CONTROL
        enable = control.bits("interrupt_enable").mask if self._interrupt else 0
        self.write(control, control.bits("start").mask | enable)

    def wait(self, timeout_s: float = 60.0) -> None:
        """Return once the program has ended.

        A run that does not end, or whose wait is interrupted, is abandoned: the next one starts
        from a machine that was reset.

        Raises
        ------
        ProgramError
            It stopped at what it says, with the instruction and its listing.
        DeviceError
            The bus refused an access, the accelerator does not answer, or nothing happened within
            `timeout_s`; then the message ends with the registers.
        """
        deadline = time.monotonic() + timeout_s
        pause = _FIRST_POLL_SECONDS
        with self._abandoning():
            while not self._ended():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._late(timeout_s)
                if self._interrupt is None:
                    time.sleep(min(left, pause))
                    pause = min(2 * pause, _POLL_SECONDS)
                else:
                    self._interrupt(left)

    async def wait_async(self, timeout_s: float = 60.0) -> None:
        """Return once the program has ended; other coroutines run meanwhile.

        Raises
        ------
        ProgramError, DeviceError
            As `wait` does. Cancelled, it abandons the run.
        """
        deadline = time.monotonic() + timeout_s
        with self._abandoning():
            while not self._ended():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._late(timeout_s)
                if self._interrupt_async is None:
                    await asyncio.sleep(min(left, _POLL_SECONDS))
                else:
                    await self._interrupt_async(left)

    def fault(self) -> Fault:
        """Return what the machine stopped at."""
        return Fault.read(self.read)

    def soft_reset(self, timeout_s: float = 1.0) -> None:
        """Abandon the run, and return once the bus is quiet.

        Raises
        ------
        DeviceError
            A burst has no answer.
        """
        self.write(Register.CONTROL, Register.CONTROL.bits("soft_reset").mask)
        deadline = time.monotonic() + timeout_s
        while self._status() & _STATUS["resetting"]:
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"The bus must answer every burst within {timeout_s} s of a reset, and it has "
                    "not: power the board off and on."
                )

    @property
    def running(self) -> bool:
        """Whether a program runs."""
        return bool(self._status() & _UNDERWAY)

    @property
    def idle(self) -> bool:
        """Whether nothing is left of the last run, on the bus either."""
        return bool(self._status() & _STATUS["idle"])

    @property
    def cycles(self) -> int:
        """Cycles of the last run."""
        return self.read(Register.CYCLES)

    def counters(self) -> dict[str, dict[str, int]]:
        """Return the last run's events by module, in the words of the cycle model."""
        counted: dict[str, dict[str, int]] = {}
        for counter in COUNTERS:
            counted.setdefault(counter.module, {})[counter.event] = self.read(counter.register)
        return counted

    def _status(self) -> int:
        """Return the status, which something other than an accelerator would not."""
        status = self.read(Register.STATUS)
        if status & ~sum(_STATUS.values()):
            raise DeviceError(
                f"An accelerator's status must have nothing but its {len(_STATUS)} low bits set, "
                f"not read {status:#010x}: it does not answer any more. Is the board on and "
                "connected, and is its overlay still loaded? Then open the device again."
            )
        return status

    def _ended(self) -> bool:
        """Whether the program has ended as it should."""
        status = self._status()
        if not status & (_ENDED | _UNDERWAY):
            # Of the cycle between a reset and a run both bits are clear: look again.
            status = self._status()
            if not status & (_ENDED | _UNDERWAY):
                raise DeviceError(
                    f"A program that was started must run or have ended, and the status says "
                    f"neither ({status:#010x}): someone else has reset the accelerator. Run it "
                    "again, with nobody else on the board."
                )
        if status & _STATUS["error"]:
            raise self.fault().exception(self._program)
        return bool(status & _ENDED)

    def _late(self, timeout_s: float) -> DeviceError:
        state = self.fault()
        return DeviceError(
            f"A program must end within the timeout of {timeout_s:g} s, and this one has not after "
            f"{state.cycles} cycles: {state.waits(self._program)}. It was abandoned; give it "
            f"longer if it needs longer. The registers were:\n{dump(self.read)}"
        )

    @contextmanager
    def _abandoning(self) -> Iterator[None]:
        """Reset the machine where a wait ends before the program does."""
        try:
            yield
        except BaseException:
            with suppress(VdlaError):  # what comes out of here matters more
                if self._status() & _UNDERWAY:
                    self.soft_reset()
            raise


@contextmanager
def _access(register: Register, doing: str) -> Iterator[None]:
    """Turn whatever stands between here and a register into an error that says so."""
    try:
        yield
    except VdlaError:
        raise
    except Exception as error:  # of the kernel, of pynq, of a connection to a board
        raise DeviceError(
            f"An accelerator must answer, and {doing} {register.name} failed "
            f"({type(error).__name__}: {error}): is the board on and connected? Then open the "
            "device again."
        ) from error


def _executed(program: Program) -> int:
    """Return the instructions up to FINISH: fetch would read on, and take the bus for it."""
    try:
        return program.finish + 1
    except ProgramError:  # the machine says so itself
        return len(program)
