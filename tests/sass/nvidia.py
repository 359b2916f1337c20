"""NVIDIA's compiler of CUDA C as a library, NVRTC, and its disassembler."""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

__all__ = ["INSTALL", "Compiler", "Machine", "Usage", "missing"]

INSTALL = "pip install 'vdla[sass]'"
HELD_BY = {
    "libnvrtc.so.12": "nvidia-cuda-nvrtc-cu12",
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "ptxas": "nvidia-cuda-nvcc-cu12",
}
"""Distributions that they come in, by the names of their files."""


@cache
def _located(name: str) -> Path | None:
    try:
        held = files(HELD_BY[name]) or []
    except PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in held if f.name == name), None)


def missing(*wanted: str) -> list[str]:
    """Return the distributions of files that are not installed; of all, without any named."""
    return [HELD_BY[name] for name in wanted or HELD_BY if _located(name) is None]


@dataclass(frozen=True)
class Usage:
    """What a thread, or for ``shared`` a block, takes of a multiprocessor.

    Attributes
    ----------
    registers : int
        Of 32 bits.
    stack, spilled, shared : int
        Bytes; what is spilled is stored in memory because there are too few registers.
    """

    registers: int
    stack: int
    spilled: int
    shared: int


@dataclass(frozen=True)
class Machine:
    """A kernel compiled for an architecture.

    Attributes
    ----------
    usage : Usage
    cubin : bytes
    """

    usage: Usage
    cubin: bytes


class Compiler:
    """Compiles CUDA C, and lists the instructions that it became.

    Parameters
    ----------
    folder : Path
        Takes what the disassembler reads.
    """

    def __init__(self, folder: Path) -> None:
        self._nvrtc = ctypes.CDLL(str(_located("libnvrtc.so.12")))
        self._folder = folder

    def compile(self, source: str, architecture: int) -> Machine:
        """Compile one kernel for ``sm_<architecture>``, and fail if it does not compile.

        The options are NVRTC's own, but that its assembler says what a kernel takes.
        """
        program = ctypes.c_void_p()
        text = source.encode()
        create = self._nvrtc.nvrtcCreateProgram
        assert create(ctypes.byref(program), text, b"kernel.cu", 0, None, None) == 0
        options = [f"--gpu-architecture=sm_{architecture}".encode(), b"--ptxas-options=-v"]
        given = (ctypes.c_char_p * len(options))(*options)
        failed = self._nvrtc.nvrtcCompileProgram(program, len(options), given)
        log = self._read("ProgramLog", program).rstrip(b"\0").decode()
        assert not failed, log
        cubin = self._read("CUBIN", program)
        assert self._nvrtc.nvrtcDestroyProgram(ctypes.byref(program)) == 0
        return Machine(_usage(log), cubin)

    def assemble(self, ptx: str, architecture: int) -> Machine:
        """Assemble one kernel for ``sm_<architecture>``, and fail if it does not assemble."""
        text, cubin = self._folder / "kernel.ptx", self._folder / "assembled.cubin"
        text.write_text(ptx)
        command = [str(_located("ptxas")), "-v", f"-arch=sm_{architecture}", str(text)]
        ended = subprocess.run(
            [*command, "-o", str(cubin)], capture_output=True, text=True, check=False
        )
        log = ended.stdout + ended.stderr
        assert not ended.returncode, log
        return Machine(_usage(log), cubin.read_bytes())

    def instructions(self, machine: Machine) -> list[str]:
        """Return a kernel's instructions, and its labels, which end with a colon, in order."""
        cubin = self._folder / "kernel.cubin"
        cubin.write_bytes(machine.cubin)
        command = [str(_located("nvdisasm")), "--print-code", str(cubin)]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = re.findall(r"^(\.L_\w+:)|^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", listing, re.M)
        return [label or instruction for label, instruction in lines]

    def _read(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        assert getattr(self._nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
        text = ctypes.create_string_buffer(size.value)
        assert getattr(self._nvrtc, f"nvrtcGet{what}")(program, text) == 0
        return text.raw


def _usage(log: str) -> Usage:
    """Read what the assembler says of the one kernel of a program."""
    ((stack, stores, loads),) = re.findall(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log
    )
    ((registers, rest),) = re.findall(r"Used (\d+) registers(.*)", log)
    shared = re.search(r"(\d+) bytes smem", rest)
    return Usage(
        int(registers), int(stack), int(stores) + int(loads), int(shared[1]) if shared else 0
    )
