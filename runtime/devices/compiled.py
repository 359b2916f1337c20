"""Layers on the processor as machine code, loaded for a session."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError, InputError, ModuleError, VdlaWarning
from vdla.module import Module, Native, NativeRun
from vdla.processor import available_cores
from vdla.runtime.native import Call, Library, aligned

__all__ = ["CompiledRun", "load_runs"]

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


class CompiledRun:
    """A run of layers as a function that is bound to memory of its own, once.

    Images are copied in and results out: a copy takes less than the checks of a binding, and asks
    nothing of how a caller's arrays lie. Threads of a caller take turns.

    Parameters
    ----------
    run : NativeRun
    module : Module
    library : Library
    constants, arena : array of uint8
        Shared by all runs of a session, at a multiple of 64 bytes.
    turn : Turn
        Held by who uses that memory.

    Raises
    ------
    ModuleError
        The library has no such function, or one with other arguments.
    """

    def __init__(
        self,
        run: NativeRun,
        module: Module,
        library: Library,
        constants: Array,
        arena: Array,
        turn: Turn,
    ) -> None:
        self.layers = run.layers
        self._turn = turn
        self._per_image = module.per_image
        tensors = module.tensors
        self._inputs = {n: aligned(tensors[n].shape, tensors[n].dtype) for n in run.inputs}
        self._outputs = {n: aligned(tensors[n].shape, tensors[n].dtype) for n in run.outputs}
        arrays = (*self._inputs.values(), *self._outputs.values(), constants)
        try:
            self._call: Call = library.function(run.name).bind(*arrays, arena[: run.arena_bytes])
        except InputError as error:
            raise ModuleError(
                f"Machine code must be of the network that it comes with, and {run.name} is not: "
                f"{error} Compile the network again."
            ) from None

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
            self._once(values)
            return {name: held.copy() for name, held in self._outputs.items()}
        images = len(values[next(iter(self._inputs))])
        results = {n: np.empty((images, *o.shape[1:]), o.dtype) for n, o in self._outputs.items()}
        for k in range(images):
            self._once({name: values[name][k : k + 1] for name in self._inputs})
            for name, held in self._outputs.items():
                results[name][k : k + 1] = held
        return results

    def _once(self, values: Mapping[str, Array]) -> None:
        for name, held in self._inputs.items():
            np.copyto(held, values[name], casting="no")
        self._call()


def load_runs(module: Module, *, threads: int | None, pin: bool) -> tuple[CompiledRun, ...]:
    """Return a module's runs ready to be called; none where it has none, or not for this machine.

    Parameters
    ----------
    module : Module
    threads : int or None
        On how many threads parallel loops run; None for one a core.
    pin : bool
        Bind each thread but the caller's to a CPU of its own.

    Warns
    -----
    VdlaWarning
        The code is for another processor, so that its layers run in numpy.

    Raises
    ------
    ModuleError
        The code is damaged or of another network.
    """
    native = module.native
    if native is None or not native.runs:
        return ()
    threads = available_cores() if threads is None else threads
    try:
        library = Library(native.library, threads=threads, pin=pin)
    except DeviceError as error:
        warnings.warn(
            f"{module.name} has code for the processor at level {native.level}, and its layers "
            f"run in numpy, which is slower: {error}",
            VdlaWarning,
            stacklevel=2,
        )
        return ()
    return tuple(_bound(module, native, library))


def _bound(module: Module, native: Native, library: Library) -> Iterator[CompiledRun]:
    constants = _room(native.constants.size)
    constants[:] = native.constants
    arena = _room(max(run.arena_bytes for run in native.runs))
    turn = Turn()
    for run in native.runs:
        yield CompiledRun(run, module, library, constants, arena, turn)


def _room(nbytes: int) -> Array:
    """Return bytes at a multiple of 64, none of them too, for which numpy would keep no place."""
    return aligned((max(nbytes, 1),), "uint8")[:nbytes]
