"""The compiled file: programs, weights, memory plan and what the runtime must know of the network.

It loads with numpy and the standard library alone: this is all that a board reads.
"""

from __future__ import annotations

from .file import FORMAT_VERSION, load, save
from .gpu import GPU_TARGETS, Gpu, GpuArgument, GpuCall, GpuKernel, GpuRegion, GpuRun
from .native import Native, NativeRun
from .parts import (
    Buffer,
    Execute,
    Launch,
    Layer,
    MemoryUse,
    Module,
    Pack,
    PlacedLayer,
    Relayout,
    Segment,
    Step,
    TensorInfo,
    Unpack,
)

__all__ = [
    "FORMAT_VERSION",
    "GPU_TARGETS",
    "Buffer",
    "Execute",
    "Gpu",
    "GpuArgument",
    "GpuCall",
    "GpuKernel",
    "GpuRegion",
    "GpuRun",
    "Launch",
    "Layer",
    "MemoryUse",
    "Module",
    "Native",
    "NativeRun",
    "Pack",
    "PlacedLayer",
    "Relayout",
    "Segment",
    "Step",
    "TensorInfo",
    "Unpack",
    "load",
    "save",
]
