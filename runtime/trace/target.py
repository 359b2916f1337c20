"""Where a trace goes: a file whose ending says the format, and a window of cycles."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from vdla.errors import InputError
from vdla.runtime.waves import require_window

from .perfetto import write_perfetto
from .timeline import Timeline
from .vcd import write_vcd

__all__ = ["ENDINGS", "Trace", "write_trace"]

ENDINGS = (".json", ".json.gz", ".vcd")
"""Perfetto's JSON, the same compressed (which its page reads too), and VCD."""


@dataclass(frozen=True)
class Trace:
    """A file to write a trace to.

    Parameters
    ----------
    path : Path
        Ends in one of `ENDINGS`.
    window : (int, int), optional
        First cycle and the one past the last; everything if not given.

    Raises
    ------
    InputError
        The name has another ending, the window holds no cycle, or the file cannot be written.
    """

    path: Path
    window: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not self.path.name.endswith(ENDINGS):
            raise InputError(
                f"A trace must end in {', '.join(ENDINGS)}, not be {self.path}: .json is for "
                "Perfetto, .vcd for GTKWave and Surfer."
            )
        if self.window is not None:
            require_window(*self.window)
        existed = self.path.exists()
        try:  # now: what is traced may take minutes to compile
            with self.path.open("ab"):
                pass
        except OSError as error:
            raise InputError(
                f"A trace must be in a folder that can be written: {self.path}: {error.strerror}; "
                "name another one."
            ) from None
        if not existed:
            self.path.unlink()


def write_trace(timeline: Timeline, trace: Trace) -> int:
    """Write a timeline in the format of the file's ending.

    Returns
    -------
    int
        Events or changes written; 0 where the run ends before the window opens.
    """
    write = write_vcd if trace.path.suffix == ".vcd" else write_perfetto
    with _opened(trace.path) as file:
        return write(timeline, file, trace.window)


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return cast("IO[str]", gzip.open(path, "wt", encoding="utf-8", compresslevel=6))
    return path.open("w", encoding="utf-8")
