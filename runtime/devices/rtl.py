"""The gateware as a device: the Verilog itself, simulated in process."""

from __future__ import annotations

from vdla.config import Config
from vdla.program import Program
from vdla.runtime.device import Counters, LayerCounters
from vdla.runtime.driver import Driver
from vdla.runtime.rtl import MemorySettings, Simulation, build_top
from vdla.runtime.rtl.run import RtlMachine, RtlResult
from vdla.runtime.waves import Waves

from .simulated import SimulatedDevice

__all__ = ["RtlDevice"]

_WAITING = ("memory", "pop_prev", "pop_next", "push")


class RtlDevice(SimulatedDevice):
    """Runs a program on the gateware, on one image after another.

    Parameters
    ----------
    config : Config
    images : int
    seed : int
        Other than 0: the memory stalls at random.
    waves : Waves, optional
        Signals to write: of the first image, its programs one after the other.

    Raises
    ------
    DeviceError
        A tool is missing; the message says what installs it.
    """

    def __init__(
        self, config: Config, images: int = 1, *, seed: int = 0, waves: Waves | None = None
    ) -> None:
        super().__init__(config, images)
        library = build_top(config, waves.option if waves else "")
        simulation = Simulation(library, MemorySettings.of(config, seed=seed))
        self._machine = RtlMachine(simulation)
        self._waves, self._cycles = waves, 0
        if waves is not None:
            simulation.waves(waves.path)
        self.result: RtlResult | None = None

    @property
    def driver(self) -> Driver:
        """What reads and writes its registers."""
        return self._machine.driver

    def close(self) -> None:
        """Free the machine, and finish the file of its waves."""
        self._machine.simulation.close()

    def _simulate(self, program: Program, base: int) -> Counters:
        shown, *others = self._memory
        results = [self._machine.run(program, shown, base=base, started=self._show)]
        self._cycles += results[0].cycles
        results += [self._machine.run(program, memory, base=base) for memory in others]
        self.result = first = results[0]
        # The hardware counts a whole program's waiting: of a layer only where there is one.
        waiting = {k: n for k, n in first.counters["compute"].items() if k in _WAITING}
        layers = {
            x.name: LayerCounters(x.cycles, x.dram_bytes, waiting if len(first.layers) == 1 else {})
            for x in first.layers
        }
        return Counters(first.cycles, layers, events=first.counters)

    def _show(self, zero: int) -> None:
        """Open the window for a program that starts where the ones before it ended."""
        waves, zero = self._waves, zero - self._cycles
        if waves is not None:
            self._machine.simulation.window(zero + waves.begin, zero + waves.end, zero)
