"""The cycle model as a device: results and exact timing."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vdla.config import PYNQ_Z1, Config
from vdla.isa import Finish
from vdla.program import Program
from vdla.runtime.device import Counters, LayerCounters
from vdla.sim import cycle

from .simulated import SimulatedDevice

__all__ = ["CycleDevice"]


class CycleDevice(SimulatedDevice):
    """Times a program once and computes the results of each image."""

    def __init__(self, config: Config, images: int = 1) -> None:
        super().__init__(config, images)
        _load_compiled_code()

    def _simulate(self, program: Program, base: int) -> Counters:
        result = cycle.run(program, self._memory, base=base)
        layers = {
            layer.name: LayerCounters(
                layer.cycles,
                layer.bytes_read + layer.bytes_written,
                {k: n for k, n in layer.waiting["compute"].items() if k != "busy"},
            )
            for layer in result.layers
        }
        return Counters(result.cycles, layers)


@lru_cache(maxsize=1)
def _load_compiled_code() -> None:
    """Run an empty program, so that no measurement counts the just-in-time compiler's work."""
    program = Program.from_instructions([Finish()], PYNQ_Z1)
    _ = cycle.run(program, np.zeros((1, 4096), np.uint8)).layers
