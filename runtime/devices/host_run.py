"""Layers beside the accelerator that something takes together, whatever runs them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from vdla.module import GpuRun, Module, NativeRun

__all__ = ["HostRun", "Turn"]

Array = NDArray[Any]


class Turn:
    """A lock that nobody holds in a child of this process, whoever held it as it forked."""

    _every: WeakSet[Turn] = WeakSet()

    def __init__(self) -> None:
        self.renew()
        Turn._every.add(self)

    def renew(self) -> None:
        """Put a free lock in place."""
        self.lock = Lock()

    @classmethod
    def renew_all(cls) -> None:
        """Put free locks in place of all there are."""
        for turn in cls._every:
            turn.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Turn.renew_all)


class HostRun(ABC):
    """A run of layers over memory of its own, one image at a time. Threads of a caller take turns.

    Parameters
    ----------
    run : NativeRun or GpuRun
    module : Module
    turn : Turn
        Held by who uses that memory.
    """

    def __init__(self, run: NativeRun | GpuRun, module: Module, turn: Turn) -> None:
        self.layers = run.layers
        self._names = run.inputs
        self._turn = turn
        self._per_image = module.per_image
        self._results = {name: module.tensors[name] for name in run.outputs}

    def execute(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return what the run's layers give to those behind them, by tensor.

        Parameters
        ----------
        values : mapping of str to array
            Activations in host memory, (n, ...) each; of the network's own shapes where images
            may not share a pass.
        """
        with self._turn.lock:
            return self._execute(values)

    def _execute(self, values: Mapping[str, Array]) -> dict[str, Array]:
        if not self._per_image:
            made = self.once({name: values[name] for name in self._names})
            return {name: held.copy() for name, held in made.items()}
        images = len(values[self._names[0]])
        results = {n: np.empty((images, *t.shape[1:]), t.dtype) for n, t in self._results.items()}
        for k in range(images):
            made = self.once({name: values[name][k : k + 1] for name in self._names})
            for name, held in made.items():
                results[name][k : k + 1] = held
        return results

    @abstractmethod
    def once(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs for one image, in memory that the next call may write."""
