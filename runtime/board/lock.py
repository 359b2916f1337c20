"""One process on a board at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

from vdla.errors import DeviceError

__all__ = ["BoardLock"]

_FOLDER = Path("/run/lock")  # of FHS 3.0; it is empty after a boot


class BoardLock:
    """Held from its making to `release`, or to the end of the process, however that comes.

    Parameters
    ----------
    name : str
        Of the board, where a machine has several.

    Raises
    ------
    DeviceError
        Another process holds it, or this one does already.
    """

    def __init__(self, name: str) -> None:
        folder = _FOLDER if os.access(_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
        self.path = folder / f"vdla-{name}.lock"
        try:
            file = self._open()
        except OSError as error:
            raise DeviceError(
                f"A board must be locked while it is used, and {self.path} cannot be written "
                f"({error.strerror}): run as the user that used the board last, or remove the file."
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip()
            file.close()
            raise DeviceError(_held(holder)) from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        self._file: IO[str] | None = file

    def release(self) -> None:
        """Let others have the board."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> IO[str]:
        # Linux (fs.protected_regular) lets not even root open a file of another user that is there
        # already in a folder for everybody with O_CREAT, so that is asked for only if it is not.
        try:
            descriptor = os.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        return os.fdopen(descriptor, "r+", encoding="ascii")


def _held(holder: str) -> str:
    rule = "A board must have one user at a time, and"
    if holder == str(os.getpid()):
        return (
            f"{rule} this process has opened it already: close that device first, with close() of "
            "the device or of the network that was loaded onto it."
        )
    if not holder.isdecimal():  # it has only just come
        return f"{rule} another process has it: wait for it to end"
    try:
        words = Path(f"/proc/{holder}/cmdline").read_bytes().split(b"\0")
        command = b" ".join(words).decode(errors="replace").strip()
    except OSError:
        command = ""
    who = f"process {holder}" + (f" ({command})" if command else "")
    return f"{rule} {who} has it: wait for it to end, or end it with: kill {holder}"
