"""Machine code for the layers that stay on the processor."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Native", "NativeRun"]


@dataclass(frozen=True)
class NativeRun:
    """Consecutive layers on the processor as one function of a library.

    Its C type is ``void name(void **arguments)``: pointers to the inputs, to the outputs, to the
    constants of all runs, and to its arena, in this order. One call is one image, of the
    network's own shapes.

    Attributes
    ----------
    name : str
        The function.
    layers : tuple of int
        Indices in the module, in the order of the steps that would execute them one by one.
    inputs, outputs : tuple of str
        Tensors in host memory, in the network's layout, row after row.
    arena_bytes : int
        Memory that it takes while it runs, aligned to 64 bytes.
    """

    name: str
    layers: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arena_bytes: int


@dataclass(frozen=True, eq=False)
class Native:
    """What a module's layers on the processor were compiled to.

    Attributes
    ----------
    level : str
        Of the processor, a name of ``vdla.compiler.targets.cpu.LEVELS``.
    library : bytes
        A shared object.
    constants : array of uint8
        Weights as the functions read them; they want them aligned to 64 bytes.
    runs : tuple of NativeRun
    """

    level: str
    library: bytes = field(repr=False)
    constants: NDArray[np.uint8] = field(repr=False)
    runs: tuple[NativeRun, ...]
