"""Soft resets in mid-flight, and register access beside a run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builder import Builder
from tests.hw.cosim.compare import (
    Expected,
    check_memory,
    expect,
    machine_of,
    same_to_the_cycle,
)
from tests.programs import gemm_blocks
from tests.random_programs import random_case
from vdla.config import TINY
from vdla.isa import Finish, MemoryType
from vdla.registers import BASES, Register
from vdla.runtime.rtl import MemorySettings
from vdla.runtime.rtl.run import RtlMachine

pytestmark = pytest.mark.rtl

SLVERR = 2
DRAIN_CYCLES = 10_000


@pytest.fixture
def machine() -> RtlMachine:
    return machine_of(TINY)


@pytest.fixture(scope="module")
def clean() -> Expected:
    return expect(gemm_blocks(TINY, 2))


def start(machine: RtlMachine, expected: Expected, seed: int = 0) -> np.ndarray:
    """Start a program as `RtlMachine.run` does, and leave it running on the memory returned."""
    memory = expected.case.fresh()
    machine.simulation.configure(MemorySettings.of(TINY, seed=seed))
    machine.simulation.map(0, memory)
    machine.driver.start(expected.case.program)
    return memory


def cuts(expected: Expected, count: int) -> list[int]:
    """Cycles to interrupt at: the first, then random ones up to the end."""
    rng = np.random.default_rng(expected.timing.cycles)
    return [0, 1, 2, *rng.integers(3, expected.timing.cycles, count - 3).tolist()]


@pytest.mark.parametrize("seed", range(6))
def test_a_soft_reset_in_mid_flight(machine: RtlMachine, seed: int) -> None:
    """The bus gets what it is owed, and the next run is to the cycle like any other."""
    expected = expect(random_case(TINY, 500 + seed))
    for stalls, cut in enumerate(cuts(expected, 12)):
        start(machine, expected, seed=stalls % 3)
        machine.simulation.run(cut)
        machine.driver.soft_reset(timeout_s=60)
        assert machine.simulation.memory_idle
        status = machine.driver.read(Register.STATUS)
        assert status == Register.STATUS.bits("idle").mask
        assert machine.driver.cycles == 0
        same_to_the_cycle(machine, expected)


def test_a_start_need_not_wait_for_a_reset(machine: RtlMachine, clean: Expected) -> None:
    """The bus may still be owed beats of the run that was abandoned."""
    other = expect(random_case(TINY, 600))
    for cut in cuts(other, 12):
        start(machine, other)
        machine.simulation.run(cut)
        machine.driver.write(Register.CONTROL, Register.CONTROL.bits("soft_reset").mask)
        same_to_the_cycle(machine, clean)


def test_a_machine_is_idle_when_nothing_is_left(machine: RtlMachine) -> None:
    """FINISH does not wait for a LOAD that pads on: done comes first, idle after it."""
    b = Builder(TINY)
    source = b.place(MemoryType.INP, np.zeros((1, 4), np.int8))
    b.load(MemoryType.INP, 0, source, 1, y_pad_0=15, y_pad_1=15, x_pad_0=5, x_pad_1=5)
    b.add(Finish())
    expected = expect(b.case("pads_on"))
    load, finish = expected.timing.finish.tolist()
    assert load > finish + 100
    same_to_the_cycle(machine, expected)
    start(machine, expected)
    assert machine.simulation.run_to_interrupt(DRAIN_CYCLES)
    assert not machine.driver.idle
    machine.simulation.run(load - finish)
    assert machine.driver.idle


def test_registers_are_read_while_running(machine: RtlMachine, clean: Expected) -> None:
    """Reading changes neither cycles nor results, and CYCLES counts."""
    memory, driver = start(machine, clean), machine.driver
    status, seen = Register.STATUS, []
    while not status.bits("done").of(word := driver.read(status)):
        seen.append(driver.cycles)
        assert not (status.bits("running").of(word) and status.bits("idle").of(word))
    assert not status.bits("running").of(driver.read(status))
    assert seen == sorted(set(seen))
    assert len(seen) > 5
    assert driver.cycles == clean.timing.cycles
    check_memory(clean, memory)


def test_the_set_up_is_locked_while_running(machine: RtlMachine, clean: Expected) -> None:
    memory, driver = start(machine, clean), machine.driver
    locked = (*BASES.values(), Register.INSTRUCTION_BASE, Register.INSTRUCTION_COUNT)
    before = [driver.read(register) for register in locked]
    for register in locked:
        assert machine.simulation.transfer(register, 0x1000)[1] == SLVERR
    control = Register.CONTROL
    driver.write(control, control.bits("start").mask | control.bits("interrupt_enable").mask)
    assert machine.simulation.run_to_interrupt(DRAIN_CYCLES)
    assert [driver.read(register) for register in locked] == before
    assert driver.cycles == clean.timing.cycles
    check_memory(clean, memory)


def test_the_interrupt_waits_for_its_enable(machine: RtlMachine, clean: Expected) -> None:
    start(machine, clean)
    driver, control, status = machine.driver, Register.CONTROL, Register.STATUS
    driver.write(control, 0)
    assert not machine.simulation.run_to_interrupt(2 * clean.timing.cycles)
    assert status.bits("done").of(driver.read(status))
    driver.write(control, control.bits("interrupt_enable").mask)
    assert machine.simulation.run_to_interrupt(10)
    driver.write(status, status.bits("done").mask)
    assert not machine.simulation.run_to_interrupt(10)
