"""Every planted fault is killed, and nothing is killed without one."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")
pytest.importorskip("numba", reason="needs numba; install it with: pip install 'vdla[host]'")

from tests.hw.faults import programs
from tests.hw.faults.machine import Observed, run
from tests.hw.faults.planted import FAULTS, Fault
from vdla.sim import cycle, functional

pytestmark = pytest.mark.rtl

NAMES = ("movement", "product", "arithmetic")


def symptoms(name: str, waits: float = 0.0) -> list[str]:
    """Run a program and name all that differs from the models."""
    case = getattr(programs, name)()
    want = case.fresh()
    functional.run(case.program, want)
    total = cycle.time(case.program, case.fresh()).cycles
    seen: Observed = run(case.program, case.fresh(), waits=waits)
    found = list(seen.complaints)
    if seen.error:
        found.append(f"error {seen.error}")
    elif seen.cycles is None:
        found.append("never done")
    elif not waits and seen.cycles != total:
        found.append(f"{seen.cycles} cycles instead of {total}")
    if not np.array_equal(seen.memory, want):
        found.append("memory differs")
    return found


@pytest.mark.parametrize("waits", [0.0, 0.4])
@pytest.mark.parametrize("name", NAMES)
def test_without_a_fault_nothing_differs(name: str, waits: float) -> None:
    assert symptoms(name, waits) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_killed(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    assert symptoms(fault.program, fault.waits)
