"""How the schedule of an operator is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vdla.compiler.te import Schedule
from vdla.compiler.tune.database import Database, built_in
from vdla.compiler.tune.task import Task

from .conv2d import ConvTensors

__all__ = ["Measure", "Scheduling"]

Measure = Callable[[Schedule, ConvTensors], int]
"""Cycles of a candidate schedule."""


@dataclass(frozen=True)
class Scheduling:
    """What chooses among schedules.

    Attributes
    ----------
    vthreads : int
        Virtual threads, 1 or 2.
    rank : callable, optional
        Measures the candidates that an analytic estimate likes best, ``rank(schedule, tensors) ->
        cycles``; then nothing is taken from records.
    records : Database
        Schedules that were found before, for the shapes that they were found for.
    network : str
        Whose choices among them go first.
    """

    vthreads: int = 2
    rank: Measure | None = None
    records: Database = field(default_factory=built_in)
    network: str = ""

    def chosen(self, task: Task) -> bool:
        """Tell whether the network has chosen a task's schedule, by the cycles of the whole."""
        if self.rank is not None or not self.network:
            return False
        found = self.records.find(task, self.network)
        return found is not None and found.chosen_in == self.network
