"""The functional model as a device: results without time."""

from __future__ import annotations

from vdla.program import Program
from vdla.runtime.device import Counters
from vdla.sim import functional

from .simulated import SimulatedDevice

__all__ = ["FunctionalDevice"]


class FunctionalDevice(SimulatedDevice):
    """Runs a program on all images at once."""

    def _simulate(self, program: Program, base: int) -> Counters:
        functional.run(program, self._memory, base=base)
        return Counters()
