"""Which signals of the gateware to keep: a file, and a window of cycles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vdla.errors import InputError

__all__ = ["DEFAULT_WINDOW", "FORMATS", "Waves", "read_window", "require_window"]

FORMATS = ("vcd", "fst")
"""Endings of files of waves, which are the options of the gateware's build as well."""

DEFAULT_WINDOW = (0, 10_000)
"""Cycles. A whole network would fill the disk: TINY takes 6 KB of VCD a cycle, or 0.3 of FST."""

_WINDOW = re.compile(r"(\d+):(\d+)")


@dataclass(frozen=True)
class Waves:
    """A window of the gateware's signals to write to a file.

    Parameters
    ----------
    path : Path
        Ends in ``.vcd`` or ``.fst``.
    begin, end : int
        First cycle and the one past the last; cycle 0 is the first of the first program, and each
        program counts on from the one before.

    Raises
    ------
    InputError
        The name has another ending, the window holds no cycle, or the file cannot be written.
    """

    path: Path
    begin: int = DEFAULT_WINDOW[0]
    end: int = DEFAULT_WINDOW[1]

    def __post_init__(self) -> None:
        if self.option not in FORMATS:
            endings = " or ".join(f".{name}" for name in FORMATS)
            raise InputError(f"A file of waves must end in {endings}, not be {self.path}.")
        require_window(self.begin, self.end)
        _require_writable(self.path)

    @property
    def option(self) -> str:
        """The format, ``vcd`` or ``fst``."""
        return self.path.suffix[1:]


def require_window(begin: int, end: int) -> None:
    """Refuse a window that holds no cycle.

    Raises
    ------
    InputError
        It does not.
    """
    if not 0 <= begin < end:
        raise InputError(
            f"A window must be START:STOP with 0 <= START < STOP, in cycles, not {begin}:{end}."
        )


def read_window(text: str) -> tuple[int, int]:
    """Return the cycles of ``START:STOP``.

    Raises
    ------
    InputError
        It is something else.
    """
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise InputError(
            f"A window must be START:STOP with 0 <= START < STOP, in cycles, not {text!r}: write, "
            "for example, 1000:2000."
        )
    return int(match[1]), int(match[2])


def _require_writable(path: Path) -> None:
    """Open the file now: the run that fills it may take minutes to reach it."""
    existed = path.exists()
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise InputError(
            f"A file of waves must be in a folder that can be written: {path}: {error.strerror}; "
            "name another one."
        ) from None
    if not existed:
        path.unlink()
