"""Kernels for a GPU, and the runs of layers that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

__all__ = ["GPU_TARGETS", "Gpu", "GpuArgument", "GpuCall", "GpuKernel", "GpuRegion", "GpuRun"]

GPU_TARGETS = ("opencl", "cuda", "metal")
"""The languages of kernels."""


@dataclass(frozen=True)
class GpuArgument:
    """An array in the GPU's memory that a kernel takes, row after row.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : str
        A numpy name.
    written : bool
        Whether the kernel writes it, every element, and does not read it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    written: bool


@dataclass(frozen=True)
class GpuKernel:
    """A kernel as a driver takes it.

    Attributes
    ----------
    name : str
        What errors call it.
    entry : str
        The function's name in the source.
    arguments : tuple of GpuArgument
        In order.
    grid, block : tuple of int
        Blocks of the grid, and threads of a block, along x, y and z.
    source : str
        In the language of its target.
    ptx : str
        The same for NVIDIA's drivers, which compile it without NVRTC; empty where it was not made.
    """

    name: str
    entry: str
    arguments: tuple[GpuArgument, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    source: str = field(repr=False)
    ptx: str = field(repr=False, default="")


@dataclass(frozen=True)
class GpuCall:
    """A kernel, by number, and the arrays that it is given, by name, in order."""

    kernel: int
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class GpuRegion:
    """Where an array lies in a run's arena, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, eq=False)
class GpuRun:
    """Consecutive layers as calls of kernels, in order; once for each image.

    Attributes
    ----------
    name : str
    layers : tuple of int
        Indices in the module, in the order of the steps that would execute them one by one.
    inputs, outputs : tuple of str
        Tensors of the network that are copied to the GPU and back, row after row.
    calls : tuple of GpuCall
    constants : mapping of str to array
        Weights as kernels read them, by name.
    regions : mapping of str to GpuRegion
        Of the arena: what is computed on the way.
    arena_bytes : int
    """

    name: str
    layers: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[GpuCall, ...]
    constants: Mapping[str, NDArray[Any]] = field(repr=False)
    regions: Mapping[str, GpuRegion]
    arena_bytes: int


@dataclass(frozen=True, eq=False)
class Gpu:
    """What layers were compiled to for a GPU.

    Attributes
    ----------
    target : str
        ``opencl``, ``cuda`` or ``metal``: the language of the sources, and who runs them.
    kernels : tuple of GpuKernel
        Each once, for all runs.
    runs : tuple of GpuRun
    """

    target: str
    kernels: tuple[GpuKernel, ...]
    runs: tuple[GpuRun, ...]
