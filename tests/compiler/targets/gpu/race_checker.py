"""Oclgrind: an interpreter of OpenCL C that knows which thread last touched each element."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from vdla.compiler.targets.gpu import Kernel, source_of

__all__ = ["INSTALL", "Report", "first_race", "watched"]

INSTALL = "apt-get install oclgrind"
RACE = re.compile(r"(?:Read-write|Write-write) data race at (local|global) memory")
ELEMENT = re.compile(r"^  \w+\[\d+\] = (\S+)$", re.M)
KINDS = {
    "bool": "uchar",
    "int8": "char",
    "uint8": "uchar",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "float32": "float",
}
"""What Oclgrind calls dtypes."""


@dataclass(frozen=True)
class Report:
    """How a kernel ran.

    Attributes
    ----------
    text : str
        Everything that there is to say of it, which is nothing of a right kernel.
    output : array
        What it wrote, to six digits.
    """

    text: str
    output: np.ndarray


def watched(kernel: Kernel, *arrays: np.ndarray, folder: Path) -> Report:
    """Run all threads of a kernel, and return what was noticed.

    Races are, and accesses outside an array, and barriers that not all threads of a block reach.

    Parameters
    ----------
    kernel : Kernel
    arrays : array
        One for each parameter that is read.
    folder : Path
        Takes the files that Oclgrind reads.
    """
    with _started(kernel, arrays, folder, subprocess.PIPE) as running:
        printed, text = running.communicate(timeout=120)
    assert running.returncode == 0, text
    (parameter,) = (p for p in kernel.parameters if p.written)
    output = np.array(ELEMENT.findall(printed), parameter.buffer.dtype).reshape(parameter.shape)
    return Report(text.strip(), output)


def first_race(kernel: Kernel, *arrays: np.ndarray, folder: Path) -> str | None:
    """Run a kernel until two threads come together, and return in which memory they do.

    ``local`` is what OpenCL calls a block's shared memory, ``global`` all other; None is returned
    where no two do.
    """
    with _started(kernel, arrays, folder, subprocess.DEVNULL) as running:
        assert running.stderr is not None
        found = next(filter(None, map(RACE.match, running.stderr)), None)
        running.kill()  # it would report each element of each block, for half a minute
    return found[1] if found else None


def _started(
    kernel: Kernel, arrays: Sequence[np.ndarray], folder: Path, stdout: int
) -> subprocess.Popen[str]:
    program = shutil.which("oclgrind-kernel")
    if program is None:
        pytest.skip(f"no Oclgrind; install it with: {INSTALL}")
    source = source_of(kernel)
    (name,) = re.findall(r"^void (\w+)\(", source, re.M)
    threads = [blocks * size for blocks, size in zip(kernel.grid, kernel.block, strict=True)]
    lines = ["kernel.cl", name, *(" ".join(map(str, sizes)) for sizes in (threads, kernel.block))]
    given = iter(arrays)
    for parameter in kernel.parameters:
        kind = np.dtype(parameter.buffer.dtype)
        opening = f"<size={kind.itemsize * parameter.buffer.total} {KINDS[kind.name]}"
        if parameter.written:
            lines.append(f"{opening} fill=0 dump>")
        else:
            lines += [f"{opening}>", " ".join(map(str, next(given).ravel().tolist()))]
    (folder / "kernel.cl").write_text(source, encoding="utf-8")
    (folder / "kernel.sim").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Two threads that write the same value to one element are a race here too.
    command = [program, "--data-races", "--uniform-writes", "kernel.sim"]
    return subprocess.Popen(command, cwd=folder, stdout=stdout, stderr=subprocess.PIPE, text=True)
