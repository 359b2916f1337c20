"""CUDA C and Metal compiled by a compiler of C++, and run on the processor."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.targets.gpu.ptx import called
from vdla.compiler.gpu import GpuNetwork
from vdla.compiler.targets.gpu import METAL, Dialect, Kernel, Parameter, source_of

__all__ = ["network_as", "run_as", "unwritten"]

SHIM = Path(__file__).with_name("fibres.cpp")


def run_as(dialect: Dialect, kernel: Kernel, *arrays: np.ndarray, folder: Path) -> np.ndarray:
    """Return what a kernel's source in a dialect writes, given the arrays that it reads.

    A barrier that not all threads of a block reach fails.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: apt-get install g++")
    source = source_of(kernel, dialect)
    source = source.replace("(threadgroup ", "(")  # pointers of C++ have no address spaces
    (folder / "kernel.inc").write_text(called(source))
    (folder / "metal_stdlib").touch()
    (name,) = re.findall(r"^(?:kernel )?void (\w+)\(", source, re.M)
    given_to = [
        f"({dialect.array_type(parameter.buffer.dtype)} *)arguments[{k}]"
        for k, parameter in enumerate(kernel.parameters)
    ]
    if dialect is METAL:
        given_to += ["blockIdx", "threadIdx"]
    defined = [
        f"-DKERNEL={name}",
        f"-DARGUMENTS={', '.join(given_to)}",
        f'-DSOURCE="{folder / "kernel.inc"}"',
    ]
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-function"]
    warnings += ["-Wno-attributes", "-Wno-unused-parameter"]
    library = folder / "kernel.so"
    subprocess.run(
        [
            compiler,
            "-O1",
            "-fPIC",
            "-shared",
            *warnings,
            *defined,
            "-I",
            folder,
            SHIM,
            "-o",
            library,
        ],
        check=True,
    )
    given = iter(arrays)
    values = [
        unwritten(p) if p.written else np.ascontiguousarray(next(given)) for p in kernel.parameters
    ]
    (result,) = (v for p, v in zip(kernel.parameters, values, strict=True) if p.written)
    sizes = [(ctypes.c_int * 3)(*size) for size in (kernel.grid, kernel.block)]
    addresses = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
    outcome = ctypes.CDLL(str(library)).launch(*sizes, addresses)
    assert outcome != 1, "threads of a block or a warp part at a barrier"
    assert outcome != 2, "a warp's threads say different things, or what no instruction takes"
    return result


def network_as(
    dialect: Dialect, made: GpuNetwork, given: Mapping[str, np.ndarray], folder: Path
) -> dict[str, np.ndarray]:
    """Return all arrays of a network, once its kernels have run in order as `run_as` does."""
    arrays = {**given, **made.constants}
    for number, call in enumerate(made.calls):
        own = folder / str(number)  # a library is loaded once from each path
        own.mkdir()
        *read, written = call.arrays
        arrays[written] = run_as(dialect, call.kernel, *(arrays[r] for r in read), folder=own)
    return arrays


def unwritten(parameter: Parameter) -> np.ndarray:
    """Return an array that nobody would mistake for the result."""
    array = np.empty(parameter.shape, parameter.buffer.dtype)
    array.view(np.uint8).fill(0xFF)  # of floats, NaN
    return array
