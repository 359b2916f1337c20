"""From gateware to a shared library: Verilog, C++, machine code, kept by what they came from."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from importlib.resources import files
from pathlib import Path

from vdla.config import Config
from vdla.runtime.cache import cache_folder

from .toolchain import Toolchain, find_toolchain, run_tool

__all__ = ["build", "build_top"]

_ABOVE = ("bitstreams", "compiler", "runtime", "sim")
"""Parts of an installed vdla that the gateware does not import."""
_HARNESS = ("harness.cpp", "axi_memory.h")
_VERILATE = (
    "--cc",
    "--prefix",
    "Vtop",
    "--top-module",
    "top",
    "-O3",
    "--noassert",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "-Wno-fatal",
    "-Wno-lint",
    "--output-split",  # few files: each reads all headers
    "100000",
)
_COMPILE = ("-std=c++20", "-fPIC", "-w")
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")


@dataclass(frozen=True, kw_only=True)
class _Option:
    """What an option adds: to Verilator's command, to the compiler's, and to its input.

    `headers` are files of ours by the names under which Verilator's sources include them.
    """

    verilate: tuple[str, ...] = ()
    compile: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    optimize: str = "-O1"

    @property
    def text(self) -> str:
        """What tells builds with an option apart."""
        folder = files("vdla.runtime.rtl")
        ours = [(folder / name).read_text(encoding="utf-8") for name in self.headers.values()]
        return (
            f"{self.verilate} {self.compile} {self.runtime} {self.optimize} {self.headers} {ours}"
        )


_OPTIONS = {
    "": _Option(optimize="-O2"),
    "vcd": _Option(
        verilate=("--trace-vcd",),
        compile=("-DVDLA_VCD", "-DVM_TRACE=1", "-DVM_TRACE_VCD=1"),
        runtime=("verilated_vcd_c.cpp",),
    ),
    "fst": _Option(
        verilate=("--trace-fst",),
        compile=("-DVDLA_FST", "-DVM_TRACE=1", "-DVM_TRACE_FST=1"),
        runtime=("verilated_fst_c.cpp",),
        headers={"lz4.h": "compression.h", "zlib.h": "compression.h"},
    ),
    "coverage": _Option(
        verilate=("--coverage-line",),
        compile=("-DVDLA_COVERAGE", "-DVM_COVERAGE=1"),
        runtime=("verilated_cov.cpp",),
    ),
}


def build_top(config: Config, option: str = "") -> Path:
    """Return the library of a configuration's accelerator, built if it is not in the cache.

    Parameters
    ----------
    config : Config
    option : str
        ``vcd`` or ``fst`` to write waves, ``coverage`` to count lines; empty for speed.

    Raises
    ------
    DeviceError
        A tool is missing or fails.
    """

    def verilog() -> str:
        from vdla.gateware.export import to_verilog
        from vdla.gateware.top import Top

        return to_verilog(Top(config))

    # The gateware is a function of its sources, of the base that they import, of Amaranth, and of
    # the configuration, but for what stays out of its hash: clock, memory, name.
    root = Path(str(files("vdla")))
    digest = hashlib.sha256(f"{config.hash:016x} {metadata.version('amaranth')}".encode())
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in _ABOVE:
            digest.update(path.read_bytes())
    return build(verilog, digest.hexdigest(), option)


def build(verilog: Callable[[], str], key: str, option: str = "") -> Path:
    """Return the library of a design, built if it is not in the cache.

    Parameters
    ----------
    verilog : callable
        Returns the text of a design whose top module is ``top``, with the ports of the harness.
    key : str
        Tells designs apart: the same key stands for the same text.
    option : str
        As for `build_top`.
    """
    tools = find_toolchain()
    harness = files("vdla.runtime.rtl")
    added = _OPTIONS[option]
    text = f"{key} {added.text} {tools.versions} {_VERILATE} {_COMPILE}"
    digest = hashlib.sha256(text.encode())
    for name in _HARNESS:
        digest.update((harness / name).read_bytes())
    folder = cache_folder("rtl")
    library = folder / f"{digest.hexdigest()[:32]}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(library.with_suffix(".lock")):
        if not library.exists():  # someone else may have built it meanwhile
            with tempfile.TemporaryDirectory(dir=folder) as work:
                compiler = _Compiler(tools, added, Path(work), folder)
                _build(verilog(), compiler).replace(library)
    return library


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class _Compiler:
    tools: Toolchain
    option: _Option
    work: Path
    cache: Path

    @property
    def include(self) -> Path:
        return self.tools.root / "include"

    def compile(self, unit: Path) -> str:
        """Return a unit's object file. Verilator's own units are the same for every design."""
        level = "-O1"
        if unit.parent == self.include:
            key = f"{self.tools.versions} {_COMPILE} {self.option.text} {unit}"
            object_file = self.cache / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.o"
            if object_file.exists():
                return str(object_file)
        else:
            object_file = self.work / f"{unit.stem}.o"
            # What runs once, such as initial values, Verilator puts into units of their own.
            level = "-O0" if unit.stem.endswith("__Slow") else self.option.optimize
        partial = self.work / f"{object_file.name}.part"
        folders = [f"-I{self.work}", f"-I{self.include}", f"-I{self.include / 'vltstd'}"]
        flags = [*_COMPILE, level, *self.option.compile, *folders]
        run_tool([self.tools.compiler, *flags, "-c", str(unit), "-o", str(partial)])
        partial.replace(object_file)
        return str(object_file)


def _build(verilog: str, compiler: _Compiler) -> Path:
    tools, option, work = compiler.tools, compiler.option, compiler.work
    design = work / "top.v"
    design.write_text(verilog, encoding="utf-8")
    for name in _HARNESS:
        (work / name).write_bytes((files("vdla.runtime.rtl") / name).read_bytes())
    for name, ours in option.headers.items():
        (work / name).write_bytes((files("vdla.runtime.rtl") / ours).read_bytes())
    output = ["--Mdir", str(work)]
    run_tool([str(tools.verilator), *_VERILATE, *option.verilate, *output, str(design)], tools.root)
    runtime = [compiler.include / name for name in (*_RUNTIME, *option.runtime)]
    units = [*runtime, *sorted(work.glob("*.cpp"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiler.compile, units))
    library = work / "top.so"
    run_tool([tools.compiler, "-shared", "-o", str(library), *objects, "-lpthread"])
    return library
