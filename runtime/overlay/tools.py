"""Running the tools that make a bitstream, which no Python package brings."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from vdla.errors import DeviceError

__all__ = ["Follow", "require", "run"]

Follow = Callable[[str], None]
"""Called with each line that a tool prints."""

_LAST_LINES = 5
_PATIENCE_SECONDS = 10.0  # that a tool has to end in once it is asked to


def require(names: Sequence[str], expected: str) -> dict[str, str]:
    """Return where programs are.

    Raises
    ------
    DeviceError
        Some are not on PATH; the message names what is expected.
    """
    found = {name: shutil.which(name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise DeviceError(
            f"{expected} must be on PATH, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not: install it and put it on PATH, or write "
            "the files to build on another machine with --script-only"
        )
    return {name: path for name, path in found.items() if path is not None}


def run(
    command: Sequence[str],
    folder: Path,
    log: Path,
    follow: Follow = lambda line: None,
    *,
    what: str,
) -> None:
    """Run a program in a folder and keep what it says.

    Parameters
    ----------
    command : sequence of str
    folder : Path
    log : Path
        Gets what it prints.
    follow : callable
    what : str
        Its name for people.

    Raises
    ------
    DeviceError
        It ends with a status other than 0; the message holds the lines that say why.
    """
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # these start processes of their own
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                kept.write(line)
                kept.flush()
                follow(line.rstrip())
        except BaseException:
            _stop(process)
            raise
    if process.returncode:
        raise DeviceError(
            f"{what} must end well, not with status {process.returncode}: {_why(log)} (all that "
            f"it said: {log})"
        )


def _stop(process: subprocess.Popen[str]) -> None:
    """End a program and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _why(log: Path) -> str:
    """Return the lines of a log that name errors; its last ones where none does."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
    errors = [line for line in lines if line.upper().startswith(("ERROR", "FATAL"))]
    return " | ".join((errors or lines)[-_LAST_LINES:]) or "it said nothing"
