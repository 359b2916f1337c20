"""A program on the RTL beside the models: where they part, and at which instruction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tests.builder import Case
from tests.hw.cosim import coverage
from vdla.config import Config
from vdla.errors import EncodingError
from vdla.isa import decode_one, line_of
from vdla.program import Program
from vdla.runtime.rtl import MemorySettings, Simulation, build_top
from vdla.runtime.rtl.run import NEVER, RtlMachine, RtlResult
from vdla.runtime.streams import MODULES, modules_of
from vdla.sim import cycle, functional

__all__ = [
    "BACK_PRESSURE",
    "Expected",
    "check_memory",
    "check_timing",
    "differences",
    "expect",
    "machine_of",
    "run",
    "same_to_the_bit",
    "same_to_the_cycle",
]

BACK_PRESSURE = (1, 2, 3)
"""Seeds of random stalls."""

_MARGIN_CYCLES = 1000
"""How much later than the model the RTL may end before it is stopped and its wait is told."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What a case must do.

    Attributes
    ----------
    case : Case
    memory : ndarray of uint8
        As the functional model leaves it.
    timing : CycleResult
        The cycle model's.
    """

    case: Case
    memory: np.ndarray
    timing: cycle.CycleResult


def expect(case: Case) -> Expected:
    memory = case.fresh()
    functional.run(case.program, memory)
    case.check(memory)
    return Expected(case, memory, cycle.time(case.program, case.fresh()))


@lru_cache
def machine_of(config: Config) -> RtlMachine:
    """Return the machine of a configuration, opened once: what one run leaves, the next meets."""
    counts = coverage.folder() is not None
    library = build_top(config, "coverage" if counts else "")
    simulation = Simulation(library, MemorySettings.of(config))
    if counts:
        coverage.opened(config, simulation)
    return RtlMachine(simulation)


def run(
    machine: RtlMachine, case: Case, seed: int = 0, cycle_limit: int | None = None
) -> tuple[RtlResult, np.ndarray]:
    """Run a case on its configuration's memory, and return its timing and what it leaves."""
    machine.simulation.configure(MemorySettings.of(case.program.config, seed=seed))
    memory = case.fresh()
    return machine.run(case.program, memory, cycle_limit=cycle_limit), memory


def same_to_the_cycle(machine: RtlMachine, expected: Expected) -> None:
    """Compare starts, finishes, the total and memory, on the reference memory."""
    limit = 2 * expected.timing.cycles + _MARGIN_CYCLES
    found, memory = run(machine, expected.case, cycle_limit=limit)
    check_timing(expected, found)
    check_memory(expected, memory)


def same_to_the_bit(machine: RtlMachine, expected: Expected, seed: int) -> None:
    """Compare memory, with every channel of the bus stalling at random."""
    _, memory = run(machine, expected.case, seed)
    check_memory(expected, memory, f" under back-pressure {seed}")


def check_timing(expected: Expected, found: RtlResult) -> None:
    timing = expected.timing
    different = differences(
        expected.case.program,
        (timing.start, timing.finish, timing.cycles),
        (found.start, found.finish, found.cycles),
    )
    assert not different, "\n".join([expected.case.name, *different])


def check_memory(expected: Expected, memory: np.ndarray, where: str = "") -> None:
    wrong = np.flatnonzero(memory != expected.memory)
    assert len(wrong) == 0, (
        f"{expected.case.name}{where}: {len(wrong)} bytes of memory differ, from {wrong[0]:#x}: "
        f"{memory[wrong[0]]}, not {expected.memory[wrong[0]]}"
    )


Times = tuple[np.ndarray, np.ndarray, int]
"""Start and finish of each instruction, and the total."""


def differences(program: Program, expected: Times, found: Times) -> list[str]:
    """Say what differs: each module's first instruction that does, the earliest first."""
    module = modules_of(program)[: len(expected[0])]
    firsts = []
    for index, name in enumerate(MODULES):
        for column, event in enumerate(("start", "finish")):
            model, rtl = expected[column], found[column]
            apart = np.flatnonzero((module == index) & (model != rtl))
            if len(apart) == 0:
                continue
            first = int(apart[0])
            rtl_text = "never" if rtl[first] == NEVER else f"in cycle {rtl[first]}"
            text = (
                f"{name.value} must {event} instruction {first} in cycle {model[first]}, and the "
                f"RTL does {rtl_text} (and {len(apart) - 1} more): {_line(program, first)}"
            )
            firsts.append((int(model[first]), text))
    texts = [text for _, text in sorted(firsts)]
    if expected[2] != found[2]:
        texts.append(f"the total must be {expected[2]} cycles, and the RTL takes {found[2]}")
    return texts


def _line(program: Program, index: int) -> str:
    low, high = (int(word) for word in program.instructions[index])
    try:
        return line_of(decode_one(high << 64 | low, program.config))
    except EncodingError:
        return f"0x{high:016x}{low:016x}"
