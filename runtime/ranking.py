"""Ranking of schedules by exact cycles, for whoever asks the compiler for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.compiler.ops import Measure
    from vdla.compiler.ops.conv2d import ConvTensors
    from vdla.compiler.te import Schedule
    from vdla.config import Config

__all__ = ["cycle_rank"]


def cycle_rank(config: Config) -> Measure:
    """Return a function that times a candidate schedule on the cycle model.

    The compiler and the simulators do not know each other; this is what is handed from one to
    the other. Values are not computed: cycles do not depend on them.
    """
    from vdla.compiler.targets.vdla.build import build
    from vdla.sim import cycle

    def measure(schedule: Schedule, tensors: ConvTensors) -> int:
        operator = build(schedule, tensors.arguments, config)
        return cycle.time(operator.program, operator.memory({})).cycles

    return measure
