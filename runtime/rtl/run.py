"""A program on the RTL in process, and its timing as the cycle model gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError
from vdla.program import Program
from vdla.runtime.driver import Driver
from vdla.runtime.streams import MODULES, bytes_moved, modules_of, most_cycles

from .simulation import Simulation

__all__ = ["NEVER", "RtlLayer", "RtlMachine", "RtlResult"]

NEVER = -1
"""Where an instruction has no start or no finish."""

_PROGRAM_ADDRESS = 0xE000_0000
"""Where instructions lie: above all data, within the 32 bits of a Zynq-7000's bus."""
_DRAIN_CYCLES = 1000
"""Looked at whether work that FINISH did not wait for is over."""
_LONGEST_DRAIN = 1_000_000
_START_CYCLES = 3
"""From the answer to the write of the start bit to cycle 0, where the bus is idle."""


@dataclass(frozen=True)
class RtlLayer:
    """A layer's share of a run; the fields mean what they mean in the cycle model's result."""

    name: str
    begin: int
    end: int
    dram_bytes: int

    @property
    def cycles(self) -> int:
        """Length of the window."""
        return self.end - self.begin


@dataclass(frozen=True, eq=False)
class RtlResult:
    """Timing of one run on the gateware.

    Attributes
    ----------
    program : Program
    cycles : int
        From the start bit to the done bit.
    start, finish : ndarray of int64, shape (n,)
        Cycles in which each instruction up to FINISH started and retired.
    counters : dict of str to dict of str to int
        What the hardware counted, by module and event.
    """

    program: Program
    cycles: int
    start: NDArray[np.int64]
    finish: NDArray[np.int64]
    counters: Mapping[str, Mapping[str, int]]

    @property
    def layers(self) -> tuple[RtlLayer, ...]:
        """The layers that store something, from the end of one's last store to the next one's."""
        count = len(self.finish)
        layer_of = self.program.layer_of[:count]
        stores = np.flatnonzero((modules_of(self.program)[:count] == 2) & (layer_of >= 0))
        last: dict[int, int] = {}
        for index in stores.tolist():
            layer = int(layer_of[index])
            last[layer] = max(last.get(layer, 0), int(self.finish[index]) + 1)
        order = sorted(last, key=lambda layer: last[layer])
        ends = [min(last[layer], self.cycles) for layer in order]
        ends[-1:] = [self.cycles] if ends else []
        moved = bytes_moved(self.program)[:count]
        return tuple(
            RtlLayer(self.program.labels[layer], begin, end, int(moved[layer_of == layer].sum()))
            for layer, begin, end in zip(order, [0, *ends], ends, strict=False)
        )


class _ProgramMemory:
    """Where the driver puts instructions, apart from the data that a test compares."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._bytes = np.zeros(0, np.uint8)

    def allocate(self, nbytes: int, align: int = 4096) -> int:
        self._bytes = np.zeros(nbytes, np.uint8)
        self._simulation.map(_PROGRAM_ADDRESS, self._bytes)
        return _PROGRAM_ADDRESS

    def free(self, address: int) -> None:
        self._bytes = np.zeros(0, np.uint8)

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        first = address - _PROGRAM_ADDRESS
        self._bytes[first : first + len(data)] = data


class RtlMachine:
    """A simulation with the driver that a board uses.

    Parameters
    ----------
    simulation : Simulation
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._limit = 0
        self.driver = Driver(simulation, _ProgramMemory(simulation), self._interrupt)

    def run(
        self,
        program: Program,
        dram: NDArray[np.uint8],
        *,
        base: int = 0,
        cycle_limit: int | None = None,
        started: Callable[[int], None] = lambda zero: None,
    ) -> RtlResult:
        """Run a program; all arguments but the last are those of the cycle model.

        Parameters
        ----------
        program : Program
        dram : ndarray of uint8, shape (bytes,)
            Written in place.
        base : int
            Address of element 0 of every memory type, in bytes.
        cycle_limit : int, optional
            Longest run; by default one that only a program that does not end exceeds.
        started : callable
            Called with the simulation's cycle that is the run's cycle 0, before it comes.

        Raises
        ------
        ProgramError
            The program is illegal or exceeds the limit.
        DeviceError
            It is for another configuration, leaves the memory, or the gateware broke a rule of
            AXI.
        """
        if dram.nbytes > _PROGRAM_ADDRESS:
            raise DeviceError(
                f"Memory must end below {_PROGRAM_ADDRESS:#x}, where instructions lie, not at "
                f"{dram.nbytes:#x}."
            )
        simulation, driver = self.simulation, self.driver
        simulation.map(0, dram)
        simulation.clear_logs()
        self._limit = most_cycles(program) if cycle_limit is None else cycle_limit
        driver.start(program, base, self._limit)
        started(simulation.cycle + _START_CYCLES)
        driver.wait(timeout_s=float("inf"))
        zero = simulation.interrupt_cycle - driver.cycles
        for _ in range(0, _LONGEST_DRAIN, _DRAIN_CYCLES):
            if driver.idle:
                break
            simulation.run(_DRAIN_CYCLES)
        start, finish = self._logs(program, zero)
        return RtlResult(program, driver.cycles, start, finish, driver.counters())

    def _interrupt(self, timeout_s: float) -> bool:
        # The machine stops at its limit by itself; that it does not is a fault of the gateware.
        cycles = self._limit + _LONGEST_DRAIN
        if not self.simulation.run_to_interrupt(cycles):
            raise DeviceError(
                f"The accelerator must interrupt within its limit of {self._limit} cycles, and it "
                f"has not after {cycles}."
            )
        return True

    def _logs(self, program: Program, zero: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        count = program.finish + 1
        module = modules_of(program)[:count]
        both = np.full((2, count), NEVER)
        for index in range(len(MODULES)):
            mine = np.flatnonzero(module == index)
            for finishes in (False, True):
                log = self.simulation.log(index, finishes=finishes) - zero
                # What an abandoned run still ends before this one resets it is not of this one.
                log = log[log >= 0][: len(mine)]
                both[int(finishes), mine[: len(log)]] = log
        return both[0], both[1]
