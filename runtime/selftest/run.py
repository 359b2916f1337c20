"""Running the grades on a device, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import DeviceError, EncodingError, ProgramError, VdlaError
from vdla.isa import Alu, AluOp, Finish
from vdla.module import Module
from vdla.program import Program
from vdla.runtime.device import Counters, Device
from vdla.runtime.driver import Driver
from vdla.sim import functional

from .arithmetic import alu_checks, gemm_checks, rq_checks
from .compare import counted_wrong, memory_wrong
from .draft import Check
from .handover import token_checks
from .memory import fetch_checks, load_checks, store_checks
from .network import network_outcome
from .registers import register_checks
from .report import FAILED, PASSED, SKIPPED, Outcome, Report

__all__ = ["checks", "selftest"]

Progress = Callable[[int, int, str], None]

_NO_MODEL = (
    "the cycle model needs numba, which is not installed: no cycles are compared; install it with: "
    "pip install 'vdla[host]'"
)
_ILLEGAL = 7
"""An opcode that is none."""
_GRADES = (
    fetch_checks,
    store_checks,
    load_checks,
    gemm_checks,
    alu_checks,
    rq_checks,
    token_checks,
)


def checks(config: Config) -> tuple[Check, ...]:
    """Return the programs of the self-test, from those that need least to those that need most."""
    return tuple(chain.from_iterable(grade(config) for grade in _GRADES))


def selftest(
    device: Device,
    *,
    name: str = "device",
    network: Module | None = None,
    exact: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Test a device, from its registers to a whole network.

    After a failure the next check runs all the same. Where a device does not answer, or something
    else than the accelerator asked for answers, the rest is left out.

    Parameters
    ----------
    device : Device
    name : str
        Of the device, for the report.
    network : Module, optional
        Compiled for the device's configuration; runs on drawn inputs.
    exact : bool
        Whether the device must take the cycle model's cycles, to one: the simulators, with the
        memory that their configuration says. On a board memory is another; cycles are reported.
    progress : callable, optional
        Called with the checks done, the checks in all, and the next.
    """
    run = _Run(device, exact, progress or (lambda done, total, doing: None))
    outcomes = run.outcomes(network)
    return Report(name, device.config.name, outcomes, run.notes)


class _Run:
    def __init__(self, device: Device, exact: bool, progress: Progress) -> None:
        self.device, self.exact, self.progress = device, exact, progress
        self.config = device.config
        self.driver: Driver | None = getattr(device, "driver", None)
        self.checks = checks(self.config)
        self.notes: list[str] = []
        self.model = _cycle_model()
        if self.model is None:
            self.notes.append(_NO_MODEL)
        self.lost: str | None = None  # why nothing more can run
        self.space = max(len(check.memory) for check in self.checks)
        self.base = -1

    def outcomes(self, network: Module | None) -> list[Outcome]:
        found = list(self._registers())
        total = len(self.checks) + 3
        if self.lost is None:
            self._open()
        for number, check in enumerate(self.checks):
            self.progress(number, total, f"{check.grade}: {check.name}")
            found.append(self._one(check))
        for number, (name, program) in enumerate(_stopping(self.config)):
            self.progress(len(self.checks) + number, total, f"stops: {name}")
            found.append(self._stop(name, program))
        self.progress(total - 1, total, "network")
        if network is None:
            found.append(Outcome("network", "none", SKIPPED, "no network was given"))
        elif self.lost is not None:
            found.append(Outcome("network", network.name, SKIPPED, self.lost))
        else:
            outcome = network_outcome(self.device, network, exact=self.exact)
            found.append(outcome)
        return found

    def _registers(self) -> Iterator[Outcome]:
        if self.driver is None:
            yield Outcome("registers", "none", SKIPPED, "this device has no registers")
            return
        try:
            for name, wrong in register_checks(self.driver, self.config):
                yield Outcome("registers", name, FAILED if wrong else PASSED, wrong or "")
                if wrong and name in ("ID", "version", "configuration"):
                    self.lost = f"this is not the accelerator that is asked for: {wrong}"
                    return
        except DeviceError as error:
            self.lost = str(error)
            yield Outcome("registers", "access", FAILED, str(error))

    def _open(self) -> None:
        try:
            self.base = self.device.allocate(self.space)
        except DeviceError as error:
            self.lost = str(error)

    def _one(self, check: Check) -> Outcome:
        if self.lost is not None:
            return Outcome(check.grade, check.name, SKIPPED, self.lost)
        expected = check.memory.copy()
        functional.run(check.program, expected)
        try:
            found = self._run(check)
            counters = self.device.counters()
        except VdlaError as error:
            if isinstance(error, DeviceError):  # what follows would wait for it as well
                self.lost = f"the device failed in {check.grade}, {check.name}"
            return Outcome(check.grade, check.name, FAILED, str(error))
        model = self.model(check) if self.model and counters.cycles is not None else None
        wrong = memory_wrong(check.program, expected, found)
        if wrong is None and model is not None:
            wrong = counted_wrong(counters, model, exact=self.exact)
        return Outcome(
            check.grade,
            check.name,
            FAILED if wrong else PASSED,
            wrong or "",
            counters.cycles,
            None if model is None else model.cycles,
        )

    def _run(self, check: Check) -> NDArray[np.uint8]:
        self.device.write(self.base, check.memory)
        self.device.launch(check.program, self.base)
        self.device.wait()
        found: NDArray[np.uint8] = self.device.read(self.base, len(check.memory))[0]
        return found

    def _stop(self, name: str, program: Program) -> Outcome:
        """See that a program which cannot go on is stopped, and that the next one runs."""
        if self.lost is not None:
            return Outcome("stops", name, SKIPPED, self.lost)
        try:
            self.device.launch(program, self.base)
            self.device.wait()
            return Outcome("stops", name, FAILED, "the program must be refused, and it has ended")
        except (ProgramError, EncodingError):
            after = self._one(self.checks[2])
            wrong = f"after it, {after.grade}, {after.name}: {after.detail}" if after.detail else ""
            return Outcome("stops", name, FAILED if wrong else PASSED, wrong)
        except DeviceError as error:
            self.lost = f"the device failed in stops, {name}"
            return Outcome("stops", name, FAILED, str(error))


def _stopping(config: Config) -> Sequence[tuple[str, Program]]:
    """Return programs that cannot go on: an illegal instruction, a token that nobody pushes."""
    finish = Program.from_instructions([Finish()], config)
    words = np.concatenate([np.array([[_ILLEGAL, 0]], np.uint64), finish.instructions])
    wait = Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=0, pop_prev=True)
    return (
        ("an illegal instruction", Program(config, words)),
        ("a token that never comes", Program.from_instructions([wait, Finish()], config)),
    )


def _cycle_model() -> Callable[[Check], Counters] | None:
    try:
        from vdla.sim import cycle
    except ModuleNotFoundError:
        return None

    def model(check: Check) -> Counters:
        result: Any = cycle.time(check.program, check.memory)
        events = {
            module: {"busy": causes["busy"], "instructions": result.instructions[module]}
            for module, causes in result.counters.items()
        }
        return Counters(result.cycles, events=events)

    return model
