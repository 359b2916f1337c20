"""The driver of the accelerator's registers: the same for a board and for the RTL in process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vdla.config import PRESETS, Config
from vdla.errors import DeviceError, ProgramError
from vdla.program import Program
from vdla.registers import BASES, COUNTERS, IDENTITY, INTERFACE, Register
from vdla.runtime.faults import Fault

__all__ = ["Driver", "Memory", "Mmio"]

_POLL_SECONDS = 0.001


class Mmio(Protocol):
    """Registers by byte offset, 32 bits each; `pynq.MMIO` is one."""

    def read(self, offset: int) -> int:
        """Return a register."""

    def write(self, offset: int, value: int) -> None:
        """Write a register."""


class Memory(Protocol):
    """Memory that the accelerator can reach."""

    def allocate(self, nbytes: int, align: int = 4096) -> int:
        """Reserve memory and return its address."""

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes into memory, where the accelerator sees them."""


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
    ) -> None:
        self._mmio = mmio
        self._memory = memory
        self._interrupt = interrupt
        self._program: Program | None = None
        self._space = (0, 0)  # address and bytes reserved for instructions
        identity = mmio.read(Register.ID)
        if identity != IDENTITY:
            raise DeviceError(
                f"An accelerator's ID register must read {IDENTITY:#010x}, not {identity:#010x}: "
                "is its bitstream loaded, and is this its address?"
            )
        version = mmio.read(Register.VERSION)
        found = (
            Register.VERSION.bits("major").of(version),
            Register.VERSION.bits("minor").of(version),
        )
        if found[0] != INTERFACE[0]:
            raise DeviceError(
                f"An accelerator's interface must be version {INTERFACE[0]}, which this driver "
                f"speaks, not {found[0]}.{found[1]}: load a bitstream of this version of vdla."
            )
        self._hash = self.read(Register.CONFIG_HASH)

    def read(self, register: Register) -> int:
        """Return a register, both its words if it has two, even while it counts."""
        mmio = self._mmio
        if register.words == 1:
            return mmio.read(register)
        high = mmio.read(register + 4)
        while True:
            low = mmio.read(register)
            again = mmio.read(register + 4)
            if again == high:
                return high << 32 | low
            high = again

    def write(self, register: Register, value: int) -> None:
        """Write a register, both its words if it has two."""
        for word in range(register.words):
            self._mmio.write(register + 4 * word, value >> 32 * word & 0xFFFFFFFF)

    def require(self, config: Config) -> None:
        """Refuse what is compiled for another configuration.

        Raises
        ------
        DeviceError
            Names both configurations.
        """
        if config.hash != self._hash:
            names = [known.name for known in PRESETS.values() if known.hash == self._hash]
            raise DeviceError(
                f"A program must be for the accelerator's configuration, "
                f"{' or '.join(names) or 'unknown'} (hash {self._hash:016x}), not for "
                f"{config.name} (hash {config.hash:016x}): compile it again, or load the bitstream "
                f"of {config.name}."
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
            The program is for another configuration.
        """
        self.require(program.config)
        self.write(Register.INSTRUCTION_BASE, self._place(program))
        self.write(Register.INSTRUCTION_COUNT, _executed(program))
        self.write(Register.CYCLE_LIMIT, cycle_limit)
        for register in BASES.values():
            self.write(register, base)
        control = Register.CONTROL
        enable = control.bits("interrupt_enable").mask if self._interrupt else 0
        self.write(control, control.bits("start").mask | enable)

    def wait(self, timeout_s: float = 60.0) -> None:
        """Return once the program has ended.

        Raises
        ------
        ProgramError
            It stopped at what it says, with the instruction and its listing.
        DeviceError
            The bus refused an access, or nothing happened within `timeout_s`.
        """
        done, error = (Register.STATUS.bits(name).mask for name in ("done", "error"))
        deadline = time.monotonic() + timeout_s
        while not (status := self.read(Register.STATUS)) & (done | error):
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeviceError(
                    f"A program must end within the timeout of {timeout_s} s, and this one has not "
                    f"after {self.read(Register.CYCLES)} cycles: set a cycle limit to learn why."
                )
            if self._interrupt is None:
                time.sleep(min(left, _POLL_SECONDS))
            else:
                self._interrupt(left)
        if status & error:
            raise self.fault().exception(self._program)

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
        resetting = Register.STATUS.bits("resetting").mask
        deadline = time.monotonic() + timeout_s
        while self.read(Register.STATUS) & resetting:
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"The bus must answer every burst within {timeout_s} s of a reset, and it has "
                    "not: power the board off and on."
                )

    @property
    def idle(self) -> bool:
        """Whether nothing is left of the last run, on the bus either."""
        return bool(self.read(Register.STATUS) & Register.STATUS.bits("idle").mask)

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

    def _place(self, program: Program) -> int:
        """Return the address of a program's instructions, which a repeated run leaves in place."""
        if program is not self._program:
            data = program.instructions.astype("<u8").view(np.uint8).reshape(-1)
            if len(data) > self._space[1]:
                self._space = self._memory.allocate(len(data)), len(data)
            self._memory.write(self._space[0], data)
            self._program = program
        return self._space[0]


def _executed(program: Program) -> int:
    """Return the instructions up to FINISH: fetch would read on, and take the bus for it."""
    try:
        return program.finish + 1
    except ProgramError:  # the machine says so itself
        return len(program)
