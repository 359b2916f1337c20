"""The gateware as a device: the Verilog itself, simulated in process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vdla.config import Config
from vdla.program import Program
from vdla.runtime.device import Counters, LayerCounters
from vdla.runtime.rtl import MemorySettings, Simulation, build_top
from vdla.runtime.rtl.run import RtlMachine, RtlResult

from .simulated import SimulatedDevice

__all__ = ["RtlDevice", "Waves"]

_WAITING = ("memory", "pop_prev", "pop_next", "push")


@dataclass(frozen=True)
class Waves:
    """A window of signals to write.

    Attributes
    ----------
    path : Path
        Ends in ``.vcd`` or ``.fst``.
    begin, end : int
        Cycles of the run; the window opens a few cycles early.
    """

    path: Path
    begin: int = 0
    end: int = 10_000


class RtlDevice(SimulatedDevice):
    """Runs a program on the gateware, on one image after another.

    Parameters
    ----------
    config : Config
    images : int
    seed : int
        Other than 0: the memory stalls at random.
    waves : Waves, optional
        Signals of the first run.

    Raises
    ------
    DeviceError
        A tool is missing; the message says what installs it.
    """

    def __init__(
        self, config: Config, images: int = 1, *, seed: int = 0, waves: Waves | None = None
    ) -> None:
        super().__init__(config, images)
        option = waves.path.suffix[1:] if waves else ""
        library = build_top(config, option)
        self._machine = RtlMachine(Simulation(library, MemorySettings.of(config, seed=seed)))
        self._waves = waves
        self.result: RtlResult | None = None

    def _simulate(self, program: Program, base: int) -> Counters:
        simulation = self._machine.simulation
        if self._waves is not None:
            now, waves = simulation.cycle, self._waves
            simulation.waves(waves.path, now + waves.begin, now + waves.end)
            self._waves = None
        results = [self._machine.run(program, memory, base=base) for memory in self._memory]
        self.result = first = results[0]
        # The hardware counts a whole program's waiting: of a layer only where there is one.
        waiting = {k: n for k, n in first.counters["compute"].items() if k in _WAITING}
        layers = {
            x.name: LayerCounters(x.cycles, x.dram_bytes, waiting if len(first.layers) == 1 else {})
            for x in first.layers
        }
        return Counters(first.cycles, layers)
