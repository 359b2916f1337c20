"""What the machine stopped at, from its registers to a message that names the instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vdla.errors import DeviceError, EncodingError, ProgramError, VdlaError
from vdla.isa import TOKEN_FLAGS, ModuleName, decode_one, line_of
from vdla.program import Program
from vdla.registers import COUNTERS, ErrorCause, ErrorModule, Register
from vdla.runtime.streams import MODULES, modules_of

__all__ = ["Fault", "dump"]

_BUS = (ErrorCause.AXI_READ, ErrorCause.AXI_WRITE)


@dataclass(frozen=True)
class Fault:
    """An error stop.

    Attributes
    ----------
    module : ErrorModule
    cause : ErrorCause
    index : int
        Of the instruction.
    cycles : int
        Of the run, up to the stop.
    stalls : dict of str to str
        By module, what it was doing or waiting for.
    finished : dict of str to int
        Instructions by module.
    """

    module: ErrorModule
    cause: ErrorCause
    index: int
    cycles: int
    stalls: dict[str, str]
    finished: dict[str, int]

    @classmethod
    def read(cls, register: Callable[[Register], int]) -> Fault:
        """Read a fault from the registers."""
        error, stall = register(Register.ERROR), register(Register.STALL)
        events = [
            (counter.module, counter.event)
            for bit, counter in enumerate(COUNTERS)
            if stall >> bit & 1 and counter.event != "instructions"
        ]
        return cls(
            module=ErrorModule(Register.ERROR.bits("module").of(error)),
            cause=ErrorCause(Register.ERROR.bits("cause").of(error)),
            index=register(Register.ERROR_INDEX),
            cycles=register(Register.CYCLES),
            stalls=dict(events),
            finished={
                counter.module: register(counter.register)
                for counter in COUNTERS
                if counter.event == "instructions"
            },
        )

    def exception(self, program: Program | None) -> VdlaError:
        """Return what to raise: the program's error, or the bus's."""
        if self.cause is ErrorCause.CYCLE_LIMIT:
            return ProgramError(self._limit_text(program))
        who = self.module.name.lower()
        text = f"The machine stopped at {self.cause.doc}: {who}, {_listing(program, self.index)}."
        return DeviceError(text) if self.cause in _BUS else ProgramError(text)

    def waits(self, program: Program | None) -> str:
        """Return what each module waits for, and the instruction that it stands at."""
        waits = [
            text
            for module in ModuleName
            if (text := self._wait_text(module, self.stalls.get(module.value), program))
        ]
        return "; ".join(waits) or "no module waits for a token"

    def _limit_text(self, program: Program | None) -> str:
        reasons = self.waits(program)
        return f"A program must end within its limit of {self.cycles} cycles: {reasons}."

    def _wait_text(
        self, module: ModuleName, event: str | None, program: Program | None
    ) -> str | None:
        if event is None or event == "busy":
            return None
        at = _listing(program, _nth(program, module, self.finished[module.value]))
        if event == "memory":
            return f"{module.value} waits for memory in {at}"
        if event == "push":
            return f"{module.value} waits for room in a token queue after {at}"
        return f"{module.value} waits for a token of {TOKEN_FLAGS[module][event].value} before {at}"


def dump(register: Callable[[Register], int]) -> str:
    """Return every register that has a value other than 0, a line each, with the bits that are set.

    Parameters
    ----------
    register : callable
        Reads one.
    """
    lines = []
    for each in Register:
        value = register(each)
        if value == 0:
            continue
        text = str(value) if each >= Register.CYCLES else f"{value:#010x}"
        flags = [b.name for b in each.fields if len(each.fields) > 1 and b.width == 1]
        said = [name for name in flags if each.bits(name).of(value)]
        lines.append(f"  {each.name.lower()} {text}" + (f" ({', '.join(said)})" if said else ""))
    return "\n".join(lines)


def _listing(program: Program | None, index: int) -> str:
    if program is None or not 0 <= index < len(program):
        return f"instruction {index}"
    low, high = (int(word) for word in program.instructions[index])
    try:
        line = " ".join(line_of(decode_one(high << 64 | low, program.config)).split())
    except EncodingError:
        line = f"0x{high:016x}{low:016x}"
    return f"instruction {index} ({line})"


def _nth(program: Program | None, module: ModuleName, count: int) -> int:
    """Return the index of a module's instruction after the first `count`, -1 for none."""
    if program is None:
        return -1
    found = np.flatnonzero(modules_of(program) == MODULES.index(module))
    return int(found[count]) if count < len(found) else -1
