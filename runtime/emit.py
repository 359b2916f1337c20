"""A network's kernels as files that need nothing of vdla: sources, weights, and what to call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from vdla.errors import InputError
from vdla.module import Gpu, GpuRun, Module

__all__ = ["MANIFEST", "WEIGHTS", "emit_source"]

MANIFEST, WEIGHTS = "manifest.json", "weights.bin"
HOST = "host.mm"
"""The program that runs a folder on Apple's GPUs, beside this module."""
ENDINGS = {"opencl": "cl", "cuda": "cu", "metal": "metal"}
ALIGN_BYTES = 256
"""Of each array of weights: no GPU asks for more where a buffer begins within another."""


def emit_source(module: Module, folder: str | Path) -> list[Path]:
    """Write a network's kernels as source, a file each, and what else a program needs to run it.

    ``manifest.json`` says which kernels are called in which order, on which arrays: inputs and
    outputs of the network, weights at an offset of ``weights.bin``, and activations at an offset of
    an arena. For Metal there is also ``host.mm``, a program that reads the folder and runs it.

    Parameters
    ----------
    module : Module
        With kernels for all its layers.
    folder : path
        Made where there is none; files of those names are written anew.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    InputError
        The network has no kernels, or not for all layers; or the folder cannot be written.
    """
    gpu = module.gpu
    if gpu is None or any(layer.device != "gpu" for layer in module.layers):
        raise InputError(
            f"A network must be kernels alone to be written as source, and {module.name} is not: "
            "compile it with --target opencl, cuda or metal."
        )
    folder = Path(folder)
    weights = bytearray()
    manifest = {
        "format": "vdla-kernels",
        "version": 1,
        "network": module.name,
        "target": gpu.target,
        "kernels": [
            {
                "file": _file(gpu, number),
                "entry": kernel.entry,
                "grid": kernel.grid,
                "block": kernel.block,
                "arguments": [vars(one) for one in kernel.arguments],
            }
            for number, kernel in enumerate(gpu.kernels)
        ],
        "runs": [_run(module, run, weights) for run in gpu.runs],
    }
    files = {MANIFEST: json.dumps(manifest, indent=1).encode() + b"\n", WEIGHTS: bytes(weights)}
    files.update(_sources(gpu))
    if gpu.target == "metal":
        files[HOST] = (resources.files("vdla.runtime") / HOST).read_bytes()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise InputError(
            f"Sources must go to a folder that can be written: {folder}: {error.strerror}."
        ) from None
    return [folder / name for name in files]


def _file(gpu: Gpu, number: int) -> str:
    name = re.sub(r"\W+", "_", gpu.kernels[number].name, flags=re.ASCII)
    return f"{number:03}_{name}.{ENDINGS[gpu.target]}"


def _sources(gpu: Gpu) -> Iterator[tuple[str, bytes]]:
    for number, kernel in enumerate(gpu.kernels):
        file = _file(gpu, number)
        yield file, kernel.source.encode()
        if kernel.ptx:
            yield str(Path(file).with_suffix(".ptx")), kernel.ptx.encode()


def _run(module: Module, run: GpuRun, weights: bytearray) -> dict[str, Any]:
    """Return what a run calls, and put its weights behind those that are there."""
    held = {}
    for name, array in run.constants.items():
        weights += bytes(-len(weights) % ALIGN_BYTES)
        held[name] = {"offset": len(weights), "size": array.nbytes}
        weights += np.ascontiguousarray(array).tobytes()
    return {
        "inputs": [_tensor(module, name) for name in run.inputs],
        "outputs": [_tensor(module, name) for name in run.outputs],
        "weights": held,
        "arena_bytes": run.arena_bytes,
        "arena": {name: vars(region) for name, region in run.regions.items()},
        "calls": [vars(call) for call in run.calls],
    }


def _tensor(module: Module, name: str) -> dict[str, Any]:
    tensor = module.tensors[name]
    size = int(np.prod(tensor.shape)) * np.dtype(tensor.dtype).itemsize
    return {"name": name, "shape": tensor.shape, "dtype": tensor.dtype, "size": size}
