"""What is wrong with a module's machine code or kernels, told before any of it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from vdla.processor import ELF_MACHINES

from .gpu import Gpu, GpuKernel, GpuRun
from .native import NativeRun
from .parts import Execute, Layer, Module

__all__ = ["gpu_fault", "native_fault"]

_ELF_HEADER_BYTES = 52
_SHARED_OBJECT = 3  # ET_DYN
_AXES = 6
"""Of a grid and of its blocks, x, y and z each."""


def native_fault(module: Module) -> str | None:
    """Return what is wrong with a module's machine code, None where nothing is or there is none."""
    native = module.native
    if native is None:
        return None
    fault = _library_fault(native.library)
    if fault is not None:
        return fault
    if native.constants.dtype != np.uint8 or native.constants.ndim != 1:
        return f"its code reads {native.constants.dtype} constants, not bytes"
    return _runs_fault(native.runs, module)


def gpu_fault(module: Module) -> str | None:
    """Return what is wrong with a module's kernels, None where nothing is or there are none."""
    gpu = module.gpu
    if gpu is None:
        return None
    for kernel in gpu.kernels:
        sizes = (*kernel.grid, *kernel.block)
        if len(sizes) != _AXES or min(sizes) < 1:
            return f"its kernel {kernel.name} has a grid and blocks of {sizes}"
    for run in gpu.runs:
        fault = _calls_fault(run, gpu, module)
        if fault is not None:
            return f"its code {run.name} {fault}"
    return _runs_fault(gpu.runs, module)


def _calls_fault(run: GpuRun, gpu: Gpu, module: Module) -> str | None:
    """Return which call is given what it must not be: kernels trust their arrays' sizes."""
    for name, region in run.regions.items():
        if region.offset < 0 or region.offset + region.size > run.arena_bytes:
            return f"places {name!r} outside of its {run.arena_bytes} bytes of memory"
    for call in run.calls:
        if not 0 <= call.kernel < len(gpu.kernels):
            return f"calls kernel {call.kernel}, and there are {len(gpu.kernels)}"
        kernel = gpu.kernels[call.kernel]
        if len(call.arrays) != len(kernel.arguments):
            return f"gives {kernel.name} {len(call.arrays)} arrays, not {len(kernel.arguments)}"
        fault = _arrays_fault(run, kernel, call.arrays, module)
        if fault is not None:
            return f"gives {kernel.name} {fault}"
    return None


def _arrays_fault(
    run: GpuRun, kernel: GpuKernel, arrays: Sequence[str], module: Module
) -> str | None:
    for argument, name in zip(kernel.arguments, arrays, strict=True):
        need = prod(argument.shape) * np.dtype(argument.dtype).itemsize
        if name in run.regions:
            have = run.regions[name].size
        elif name in run.constants:
            have = run.constants[name].nbytes
        elif name in (*run.inputs, *run.outputs) and name in module.tensors:
            tensor = module.tensors[name]
            have = prod(tensor.shape) * np.dtype(tensor.dtype).itemsize
        else:
            return f"an array {name!r}, which there is not"
        if have < need:
            return f"{name!r} of {have} bytes for {argument.name} of {need}"
    return None


def _runs_fault(runs: Sequence[NativeRun | GpuRun], module: Module) -> str | None:
    after = {
        one.layer: two.layer if isinstance(two, Execute) else None
        for one, two in zip(module.steps, (*module.steps[1:], None), strict=True)
        if isinstance(one, Execute)
    }
    owner: dict[int, str] = {}
    for run in runs:
        fault = _run_fault(run, module, after, owner)
        if fault is not None:
            return f"its code {run.name} {fault}"
    return None


def _run_fault(
    run: NativeRun | GpuRun, module: Module, after: Mapping[int, int | None], owner: dict[int, str]
) -> str | None:
    layers = module.layers
    if not run.layers:
        return "computes no layer"
    if not run.inputs or not run.outputs:
        return "has no input or no output"
    for index in run.layers:
        if not 0 <= index < len(layers):
            return f"names layer {index}, and there are {len(layers)}"
        if index not in after:
            return f"names layer {index} ({layers[index].name}), which no step executes"
        if owner.setdefault(index, run.name) != run.name or run.layers.count(index) > 1:
            return f"computes layer {index} ({layers[index].name}) a second time"
    for one, two in zip(run.layers, run.layers[1:], strict=False):
        if after[one] != two:
            return (
                f"names layers {one} and {two} ({layers[one].name}, {layers[two].name}), which no "
                "two steps execute one after the other"
            )
    for name in (*run.inputs, *run.outputs):
        if name not in module.tensors:
            return f"names tensor {name!r}, which there is not"
        if module.tensors[name].data is not None:
            return f"takes tensor {name!r}, which is constant"
    if run.arena_bytes < 0:
        return f"takes {run.arena_bytes} bytes of memory"
    return _flow_fault(run, layers, module.outputs)


def _flow_fault(
    run: NativeRun | GpuRun, layers: Sequence[Layer], module_outputs: Sequence[str]
) -> str | None:
    """Return which tensor a run gives or leaves out against what its layers say."""
    made = {name for index in run.layers for name in layers[index].outputs}
    for name in run.outputs:
        if name not in made:
            return f"gives tensor {name!r}, which none of its layers makes"
    for name in run.inputs:
        if name in made:
            return f"reads tensor {name!r}, which it makes itself"
        if any(name in layer.outputs for layer in layers[run.layers[0] :]):
            return f"reads tensor {name!r}, which a later layer makes"
    elsewhere = {
        name
        for index, layer in enumerate(layers)
        if index not in run.layers
        for name in layer.inputs
    }
    kept = sorted((made & {*elsewhere, *module_outputs}) - {*run.outputs})
    return f"does not give tensor {kept[0]!r}, which others read" if kept else None


def _library_fault(library: bytes) -> str | None:
    """Return what is wrong with a shared object by its first bytes; who loads it looks closer."""
    if library[:4] != b"\x7fELF" or len(library) < _ELF_HEADER_BYTES:
        return "its library is no shared object"
    kind = int.from_bytes(library[16:18], "little")
    machine = int.from_bytes(library[18:20], "little")
    if kind != _SHARED_OBJECT or machine not in ELF_MACHINES.values():
        return f"its library is an object of kind {kind} for machine {machine}"
    return None
