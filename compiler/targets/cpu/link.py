"""From an object file to a shared object that ctypes loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from vdla.errors import DeviceError, LoweringError
from vdla.processor import ELF_MACHINES, architecture

from .elf import read_symbols
from .target import Target

__all__ = ["FROM_LIBC", "link"]

_MATHS = ("erf", "exp", "log", "pow", "tanh")
FROM_LIBC = frozenset(
    {"memcpy", "memmove", "memset", "syscall", *_MATHS, *(f"{name}f" for name in _MATHS)}
)
"""What a library may take from the C library of the process that loads it, and nothing else."""

_LINKER_DEFINES = frozenset({"_GLOBAL_OFFSET_TABLE_"})

# Emulations of GNU ld, and the prefix of a GNU ld that was built for the architecture alone.
_EMULATIONS = {"x86-64": "elf_x86_64", "aarch64": "aarch64linux", "armv7": "armelf_linux_eabi"}
_PREFIXES = {
    "x86-64": "x86_64-linux-gnu-",
    "aarch64": "aarch64-linux-gnu-",
    "armv7": "arm-linux-gnueabihf-",
}
# Nothing that tells one build from another: the same object is the same library.
_OPTIONS = (
    "-shared",
    "-Bsymbolic",  # its own functions, whatever else the process has loaded
    "--build-id=none",
    "--hash-style=gnu",
    "--strip-all",
    "-z",
    "noexecstack",
    "-z",
    "now",
)
# What begins with two underscores is a helper of the compiler, of no concern to others.
_EXPORTS = "{ local: __*; };\n"


def link(object_bytes: bytes, target: Target) -> bytes:
    """Return a shared object with an object's functions.

    The same object gives the same bytes. Files are made in a temporary folder alone.

    Parameters
    ----------
    object_bytes : bytes
        An ELF object file, position-independent.
    target : Target
        What it was made for.

    Raises
    ------
    LoweringError
        The object is for another architecture, or needs functions that no library has at hand
        on every machine.
    DeviceError
        No linker for the architecture is installed, or it failed.
    """
    symbols = read_symbols(object_bytes)
    machine = int.from_bytes(object_bytes[18:20], "little")
    if machine != ELF_MACHINES[target.architecture]:
        names = {number: name for name, number in ELF_MACHINES.items()}
        raise LoweringError(
            f"An object must be for the architecture it is linked for, {target.architecture}, "
            f"not {names.get(machine, machine)}: compile it for {target.level}."
        )
    foreign = sorted(set(symbols.undefined) - FROM_LIBC - _LINKER_DEFINES)
    if foreign:
        raise LoweringError(
            f"Generated code must need nothing but {', '.join(sorted(FROM_LIBC))}, not "
            f"{', '.join(foreign)}: define it in the module that is compiled."
        )
    command = _linker(target)
    with tempfile.TemporaryDirectory(prefix="vdla-link-") as name:
        folder = Path(name)
        (folder / "code.o").write_bytes(object_bytes)
        (folder / "exports").write_text(_EXPORTS, encoding="ascii")
        words = [*command, *_OPTIONS, "--version-script=exports", "-o", "code.so", "code.o"]
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,  # so that messages and the library name no path of this machine
            env={**os.environ, "LC_ALL": "C"},
        )
        if done.returncode:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
            raise DeviceError(f"The linker {command[0]} failed with code {done.returncode}: {said}")
        return (folder / "code.so").read_bytes()


def _linker(target: Target) -> list[str]:
    """Return the command of a linker: the system's own, one for the target, or the extra's."""
    name = target.architecture
    emulation = ["-m", _EMULATIONS[name]]
    if name == architecture() and (own := shutil.which("ld")):
        return [own, *emulation]
    if other := shutil.which(f"{_PREFIXES[name]}ld"):
        return [other, *emulation]
    if any_target := shutil.which("ld.lld"):
        return [any_target, *emulation]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld", *emulation]
    own_way = "apt-get install binutils, or " if name == architecture() else ""
    raise DeviceError(
        f"Linking code for {name} needs a linker for it, and none is installed; install one with: "
        f"{own_way}pip install 'vdla[cross]'"
    )
