"""Records on disk: JSON lines that several processes append to, and that survive being cut off."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from vdla.compiler.tune.task import Record, read_record
from vdla.errors import InputError

__all__ = ["Log", "Read"]


@dataclass
class Read:
    """What a file of records holds.

    Attributes
    ----------
    records : list of Record
    others : list of str
        Lines of another schema, or whose key is not that of their task: kept, and never used.
    cut : bool
        Whether a line was not written to its end.
    """

    records: list[Record] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    cut: bool = False

    @property
    def foreign(self) -> int:
        """How many lines are not used."""
        return len(self.others)

    def said(self, path: Path) -> list[str]:
        """Return what the user of a file should know, a sentence each."""
        found = []
        if self.cut:
            found.append(f"{path}: a line was not written to its end, and is left out")
        if self.others:
            found.append(
                f"{path}: {self.foreign} line{'s' * (self.foreign > 1)} of another schema or with "
                "another key than the task's: not used; they are of another version of vdla, or "
                "were edited"
            )
        return found


class Log:
    """A file of records.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, records: Iterable[Record]) -> None:
        """Add lines, whole ones, whoever else does; a line that was cut off is ended first.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        text = "".join(f"{record.to_json()}\n" for record in records).encode()
        if not text:
            return
        with self._locked() as file:
            end = os.lseek(file, 0, os.SEEK_END)
            if end and os.pread(file, 1, end - 1) != b"\n":
                text = b"\n" + text
            self._write(file, text)

    def read(self) -> Read:
        """Return the records; none where there is no file.

        Raises
        ------
        InputError
            A line is no record, nor the beginning of one.
        """
        try:
            with self.path.open("rb") as file:
                with suppress(OSError):  # a folder that cannot be written may have no locks
                    fcntl.flock(file, fcntl.LOCK_SH)
                return self._parsed(file.read())
        except FileNotFoundError:
            return Read()
        except OSError as error:
            raise self._refused(error) from None

    def rewrite(self, change: Callable[[Read], Iterable[Record]]) -> None:
        """Replace the records by others, whole or not at all; nothing else is appended meanwhile.

        Lines of another schema stay. What was cut off does not.

        Parameters
        ----------
        change : callable
            Given what the file holds, returns what it is to hold. Where it raises, the file stays.

        Raises
        ------
        InputError
            The file cannot be read or written.
        """
        with self._locked() as file:
            there = os.fstat(file)
            found = self._parsed(os.pread(file, there.st_size, 0))
            lines = [*found.others, *(record.to_json() for record in change(found))]
            path = self.path.resolve()  # a link stays one
            try:
                descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            except OSError as error:
                raise self._refused(error) from None
            try:
                os.fchmod(descriptor, there.st_mode & 0o777)
                self._write(descriptor, "".join(f"{line}\n" for line in lines).encode())
                Path(name).replace(path)
            except BaseException:
                Path(name).unlink()
                raise
            finally:
                os.close(descriptor)

    def _parsed(self, content: bytes) -> Read:
        found = Read()
        for number, whole in enumerate(content.decode("utf-8", errors="replace").split("\n")):
            line = whole.strip(_NOTHING)
            if not line:
                found.cut |= "\0" in whole
                continue
            try:
                record = read_record(line)
            except InputError as error:
                if _unfinished(line):
                    found.cut = True
                    continue
                raise InputError(f"{self.path}, line {number + 1}: {error}") from None
            if record is None:
                found.others.append(line)
            else:
                found.records.append(record)
        return found

    def _write(self, file: int, text: bytes) -> None:
        try:
            while text:
                text = text[os.write(file, text) :]
            os.fsync(file)
        except OSError as error:
            raise self._refused(error) from None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for this process alone, also where another has just replaced it."""
        file = self._open()
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            while not self._is(file):
                os.close(file)
                file = self._open()
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _open(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._refused(error) from None

    def _is(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), self.path.stat())
        except FileNotFoundError:
            return False

    def _refused(self, error: OSError) -> InputError:
        return InputError(f"Records are kept in {self.path}, and it cannot be: {error.strerror}.")


_NOTHING = " \t\r\0"
"""A machine that loses its power may leave zeros where a line was to be."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _unfinished(line: str) -> bool:
    """Tell whether a line is the beginning of an object whose end is missing."""
    outside = _STRING.sub("", line)
    opened, closed = (sum(map(outside.count, pair)) for pair in ("{[", "}]"))
    return line.startswith("{") and ('"' in outside or opened > closed)
