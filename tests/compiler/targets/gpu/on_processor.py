"""CUDA C and Metal compiled by a compiler of C++, and run on the processor."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from vdla.compiler.targets.gpu import METAL, Dialect, Kernel, source_of

__all__ = ["run_as"]

SHIM = Path(__file__).with_name("fibres.cpp")


def run_as(dialect: Dialect, kernel: Kernel, *arrays: np.ndarray, folder: Path) -> np.ndarray:
    """Return what a kernel's source in a dialect writes, given the arrays that it reads.

    A barrier that not all threads of a block reach fails.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: apt-get install g++")
    source = source_of(kernel, dialect)
    (folder / "kernel.inc").write_text(source)
    (folder / "metal_stdlib").touch()
    (name,) = re.findall(r"^(?:kernel )?void (\w+)\(", source, re.M)
    given_to = [f"(float *)arguments[{k}]" for k in range(len(kernel.parameters))]
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
        np.full(p.shape, np.nan, np.float32) if p.written else np.ascontiguousarray(next(given))
        for p in kernel.parameters
    ]
    (result,) = (v for p, v in zip(kernel.parameters, values, strict=True) if p.written)
    sizes = [(ctypes.c_int * 3)(*size) for size in (kernel.grid, kernel.block)]
    addresses = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
    assert ctypes.CDLL(str(library)).launch(*sizes, addresses) == 0, "threads part at a barrier"
    return result
