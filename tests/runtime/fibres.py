"""Source of kernels in CUDA C or Metal as functions of the processor, from the source alone."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.compiler.targets.gpu.on_processor import SHIM
from tests.compiler.targets.gpu.ptx import called

__all__ = ["Compiled", "compiled"]


class Compiled:
    """A kernel that runs as its source says.

    Attributes
    ----------
    count : int
        Of the arrays that it takes.
    """

    def __init__(self, library: Path, count: int) -> None:
        self.count = count
        self._function = ctypes.CDLL(str(library)).launch

    def __call__(self, grid: Sequence[int], block: Sequence[int], addresses: Sequence[int]) -> None:
        """Run it on a grid of blocks, given the addresses of its arrays."""
        assert len(addresses) == self.count
        sizes = [(ctypes.c_int * 3)(*size) for size in (grid, block)]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        assert self._function(*sizes, pointers) == 0, "threads part at a barrier"


def compiled(source: str, entry: str, folder: Path) -> Compiled:
    """Return the kernel of a source; a folder is for one kernel."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: apt-get install g++")
    folder.mkdir(parents=True)
    source = source.replace("(threadgroup ", "(")  # pointers of C++ have no address spaces
    (folder / "kernel.inc").write_text(called(source))
    (folder / "metal_stdlib").touch()
    (signature,) = re.findall(rf"\bvoid {entry}\(\n(.*?)\)\n{{", source, re.S)
    types = re.findall(r"(?:const )?([\w ]+?) \*__restrict", signature)
    given = [f"({kind.removeprefix('device ')} *)arguments[{k}]" for k, kind in enumerate(types)]
    if "thread_place [[" in signature:
        given += ["blockIdx", "threadIdx"]
    defined = [f"-DKERNEL={entry}", f"-DARGUMENTS={', '.join(given)}"]
    defined.append(f'-DSOURCE="{folder / "kernel.inc"}"')
    library = folder / "kernel.so"
    command = [compiler, "-O1", "-fPIC", "-shared", "-w", *defined, "-I", str(folder), str(SHIM)]
    subprocess.run([*command, "-o", str(library)], check=True)
    return Compiled(library, len(types))
