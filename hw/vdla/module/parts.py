"""What a compiled network consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.program import Program

from .gpu import Gpu
from .native import Native

__all__ = [
    "Buffer",
    "Execute",
    "Launch",
    "Layer",
    "MemoryUse",
    "Module",
    "Pack",
    "PlacedLayer",
    "Relayout",
    "Segment",
    "Step",
    "TensorInfo",
    "Unpack",
]


@dataclass(frozen=True, eq=False)
class TensorInfo:
    """A tensor of the network.

    Attributes
    ----------
    name : str
    shape : tuple of int
        For one image: NHWC or NC with N = 1 on the accelerator, anything on the host.
    dtype : str
        A numpy name.
    scale : array of float or None
        ``real = scale * (q - zero_point)``, one for the tensor or one an index along `axis`; None
        for real numbers and plain integers.
    zero_point : array of int64 or None
    axis : int or None
    data : array or None
        The value of a constant.
    source : str
        The name in the file that the network came from.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: NDArray[np.floating[Any]] | None = None
    zero_point: NDArray[np.int64] | None = None
    axis: int | None = None
    data: NDArray[Any] | None = field(default=None, repr=False)
    source: str = ""


@dataclass(frozen=True, eq=False)
class Layer:
    """An operator and where it runs.

    Attributes
    ----------
    name, op : str
    inputs, outputs : tuple of str
        Tensor names.
    attrs : mapping
        Attributes of the operator: numbers, strings and tuples of them.
    device : str
        ``vdla``, ``cpu`` or ``gpu``.
    macs : int
        True multiply-accumulates of one image, padding left out.
    params : mapping
        Integer parameters of an operator off the accelerator: numbers, tuples, arrays.
    fused_into : str
        The layer whose instructions compute this one as well; empty for a layer of its own.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    device: str
    macs: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    fused_into: str = ""


@dataclass(frozen=True)
class Buffer:
    """A tensor's place in the arena, its channels in blocks.

    Attributes
    ----------
    tensor : str
    shape : tuple of int
        ``(N / batch, ceil(C / block), H, W, batch, block)``, one byte an element.
    offset : int
        First byte in the arena.
    inside : int or None
        The buffer that it is a part of, by number: that of a concatenation.
    """

    tensor: str
    shape: tuple[int, int, int, int, int, int]
    offset: int
    inside: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes it takes."""
        return prod(self.shape)

    @property
    def block(self) -> int:
        """Channels of a block."""
        return self.shape[-1]


@dataclass(frozen=True, eq=False)
class Segment:
    """Bytes that stand in the arena before anything runs: constants or micro-ops."""

    offset: int
    data: NDArray[np.uint8]


@dataclass(frozen=True)
class Pack:
    """Copy a tensor from host memory to a buffer, padding channels with zeros."""

    tensor: str
    buffer: int


@dataclass(frozen=True)
class Unpack:
    """Copy a buffer to a tensor in host memory."""

    buffer: int
    tensor: str


@dataclass(frozen=True)
class Relayout:
    """Copy a buffer to another one of the same tensor with other blocks."""

    source: int
    target: int


@dataclass(frozen=True)
class Execute:
    """Run an operator on the host, by index of its layer."""

    layer: int


@dataclass(frozen=True)
class PlacedLayer:
    """A layer inside a program: its index, the buffers it reads and the one it writes."""

    layer: int
    reads: tuple[int, ...]
    writes: int


@dataclass(frozen=True)
class Launch:
    """Run a program; its label number k is ``layers[k]``."""

    program: int
    layers: tuple[PlacedLayer, ...]


Step = Pack | Unpack | Relayout | Execute | Launch


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of the arena, tensors at page boundaries.

    Attributes
    ----------
    constants, micro_ops : int
    activations : int
        Where buffers whose lives do not overlap share memory.
    activations_unshared : int
        What they would take if none did.
    """

    constants: int
    activations: int
    activations_unshared: int
    micro_ops: int


@dataclass(frozen=True, eq=False)
class Module:
    """A compiled network.

    Attributes
    ----------
    name : str
    config : Config
        What the programs are encoded for.
    tensors : mapping of str to TensorInfo
    layers : tuple of Layer
        In the network's order.
    inputs, outputs : tuple of str
        Tensor names.
    steps : tuple of Step
        What to do, in order.
    programs : tuple of Program
    buffers : tuple of Buffer
    segments : tuple of Segment
    arena_bytes : int
        Memory that the device must hold; base 0 in every address of the programs.
    memory : MemoryUse
    per_image : bool
        Whether images may share a pass, on axis 0 of every activation; else one runs at a time.
    labels : tuple of str
        What each class is called; empty where nobody has said it.
    native : Native or None
        Machine code for layers on the processor; without, they run in numpy.
    gpu : Gpu or None
        Kernels for the layers on a GPU; without one they run in numpy.
    """

    name: str
    config: Config
    tensors: Mapping[str, TensorInfo]
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    programs: tuple[Program, ...]
    buffers: tuple[Buffer, ...]
    segments: tuple[Segment, ...]
    arena_bytes: int
    memory: MemoryUse
    per_image: bool = True
    labels: tuple[str, ...] = ()
    native: Native | None = None
    gpu: Gpu | None = None

    def with_config(self, config: Config) -> Module:
        """Return the module on a configuration of the same hash: another clock, say."""
        programs = tuple(replace(program, config=config) for program in self.programs)
        return replace(self, config=config, programs=programs)
