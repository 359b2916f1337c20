"""Records on disk: JSON lines that several processes append to, and that survive being cut off."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vdla.compiler.tune.task import OK, Record, read_record
from vdla.errors import InputError

__all__ = ["Log", "Read"]


@dataclass
class Read:
    """What a file of records holds.

    Attributes
    ----------
    records : list of Record
    foreign : int
        Lines of another schema.
    cut : bool
        Whether the last line was not written to its end.
    """

    records: list[Record] = field(default_factory=list)
    foreign: int = 0
    cut: bool = False

    def best(self) -> dict[str, Record]:
        """Return the cheapest record of each task, by its key."""
        found: dict[str, Record] = {}
        for record in self.records:
            if record.status != OK or record.cost is None:
                continue
            known = found.get(record.task.key)
            if known is None or known.cost is None or record.cost < known.cost:
                found[record.task.key] = record
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
            os.write(file, text)
            os.fsync(file)

    def read(self) -> Read:
        """Return the records; none where there is no file.

        Raises
        ------
        InputError
            A line before the last is no record.
        """
        found = Read()
        try:
            text = self.path.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return found
        except OSError as error:
            raise self._refused(error) from None
        lines = text.split("\n")
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                record = read_record(line)
            except InputError as error:
                if self._may_be_cut(lines, number):
                    found.cut = True
                    continue
                raise InputError(f"{self.path}, line {number + 1}: {error}") from None
            if record is None:
                found.foreign += 1
            else:
                found.records.append(record)
        return found

    def replace(self, records: Iterable[Record]) -> None:
        """Write a file anew, whole or not at all."""
        text = "".join(f"{record.to_json()}\n" for record in records)
        with self._locked():
            descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(self.path)

    def _may_be_cut(self, lines: list[str], number: int) -> bool:
        """Tell whether a line's end is missing: it begins as records do, and has no end."""
        line = lines[number]
        return line.startswith("{") and not line.rstrip().endswith("}")

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
