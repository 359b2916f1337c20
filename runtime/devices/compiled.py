"""Layers on the processor as machine code, loaded for a session."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError, InputError, ModuleError, VdlaWarning
from vdla.module import Module, Native, NativeRun
from vdla.processor import available_cores
from vdla.runtime.native import Call, Library, aligned

from .host_run import HostRun, Turn

__all__ = ["CompiledRun", "load_runs"]

Array = NDArray[Any]


class CompiledRun(HostRun):
    """A run of layers as a function that is bound to memory of its own, once.

    Images are copied in and results out: a copy takes less than the checks of a binding, and asks
    nothing of how a caller's arrays lie.

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
        super().__init__(run, module, turn)
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

    def once(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs for one image, in memory that the next call writes."""
        for name, held in self._inputs.items():
            np.copyto(held, values[name], casting="no")
        self._call()
        return self._outputs


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
