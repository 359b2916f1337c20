"""A board that answers requests: over SSH, or this machine itself."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from vdla.errors import DeviceError
from vdla.runtime.flash import onboard

__all__ = ["PYNQ_PYTHON", "Channel", "Done", "File", "LocalChannel", "Machine"]

PYNQ_PYTHON = "/usr/local/share/pynq-venv/bin/python3"
"""The Python that pynq is installed in, on PYNQ's images."""

LEAST_PYTHON = (3, 10)
_OLD = "vdla-old-python"
_NO_COMMAND = 127  # what a shell says of a command that is not there
_CHUNK_BYTES = 1 << 16
_LOCK_SECONDS = 300.0
"""For what an interrupted flash left running on the board: an installation takes that long."""

Sent = Callable[[int], None]


class Channel(Protocol):
    """Bytes to and from a command on the board."""

    def write(self, data: bytes) -> None:
        """Send all of `data`; `OSError` where the other end is gone."""

    def readline(self) -> bytes:
        """Return the next line; nothing at the end."""

    def failure(self) -> tuple[int | None, str]:
        """Return, after the end, the exit code and what went to standard error."""

    def close(self) -> None:
        """Hang up."""


@dataclass(frozen=True)
class File:
    """A file for the board.

    Parameters
    ----------
    source : Path
    name : str
        Where it goes, below vdla's folder.
    sha256 : str
    nbytes : int
    """

    source: Path
    name: str
    sha256: str
    nbytes: int

    @classmethod
    def of(cls, source: Path, name: str) -> File:
        """Read what is needed to send a file."""
        data = source.read_bytes()
        return cls(source, name, hashlib.sha256(data).hexdigest(), len(data))


@dataclass(frozen=True)
class Done:
    """What a command on the board gave.

    Parameters
    ----------
    code : int
        Its exit code.
    output : str
        Its standard output.
    said : list of str
        The last lines of its standard error.
    """

    code: int
    output: str
    said: list[str]


class Machine:
    """A board.

    Parameters
    ----------
    name : str
        For messages: ``xilinx@pynq``.
    open_channel : callable
        Starts a shell command there.
    python : str, optional
        The Python to use there; by default that of PYNQ's image, and ``python3`` elsewhere.

    Attributes
    ----------
    facts : dict
        See `onboard.describe`.

    Raises
    ------
    DeviceError
        There is no Python, or an old one.
    """

    def __init__(
        self, name: str, open_channel: Callable[[str], Channel], python: str | None = None
    ) -> None:
        self.name = name
        self.password: str | None = None
        self._channel = open_channel(_command(python))
        self._doing = "vdla started there"
        try:
            self._start(python or f"{PYNQ_PYTHON} or python3")
            self.facts: dict[str, Any] = self.call("describe")
        except BaseException:
            self.close()
            raise

    def _start(self, python: str) -> None:
        with suppress(OSError):  # a command that ends at once reads nothing, and says why below
            self._channel.write(_source())
        while line := self._channel.readline():
            words = line.decode(errors="replace").split()
            if words == [onboard.HELLO]:
                return
            if words[:1] == [_OLD]:
                raise DeviceError(
                    f"A board's Python must be {'.'.join(map(str, LEAST_PYTHON))} or later, and "
                    f"{python} of {self.name} is {words[1]}: flash the SD card with a PYNQ image "
                    "of version 3.0 or later, or name another Python with --python"
                )
        code, said = self._channel.failure()
        if code is None and not said:
            raise self._lost()
        if code == _NO_COMMAND or "No such file" in said:
            raise DeviceError(
                f"A board must have Python, and {self.name} has no {python}: name one with --python"
            )
        raise DeviceError(
            f"Python must start on the board, and {python} of {self.name} did not: "
            f"{_last(said) or f'exit code {code}'}: try it there, or name another with --python"
        )

    def call(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Ask for something that is done at once, and return the answer."""
        return self._ask({"do": do, **arguments}, None)

    def _ask(
        self, request: dict[str, Any], line: Callable[[str], None] | None, data: File | None = None
    ) -> dict[str, Any]:
        try:
            self._channel.write(json.dumps(request).encode() + b"\n")
        except OSError:
            raise self._lost() from None
        return self._answer(line)

    def _answer(self, line: Callable[[str], None] | None) -> dict[str, Any]:
        while raw := self._channel.readline():
            answer = json.loads(raw)
            if "line" in answer:
                if line is not None:
                    line(answer["line"])
            elif "error" in answer:
                raise self._refused(answer["kind"], answer["error"])
            else:
                return dict(answer["ok"])
        raise self._lost()

    def _lost(self) -> DeviceError:
        return DeviceError(
            f"The connection must last until the end, and {self.name} hung up while {self._doing}: "
            "run the same command again, it goes on where it stopped"
        )

    def _refused(self, kind: str, text: str) -> DeviceError:
        if kind == "locked":
            return DeviceError(
                f"One vdla at a time installs on a board, and another one is at work on "
                f"{self.name}: try again when it is done"
            )
        if kind == "damaged":
            return DeviceError(
                f"A file must arrive as it was sent, and {text} on {self.name} did not: "
                "run the same command again"
            )
        return DeviceError(
            f"The board must have room and rights for vdla's files, and {self.name} says: {text}: "
            "free space there, or use another account"
        )

    def doing(self, what: str) -> None:
        """Say what the connection is used for, for the case that it ends."""
        self._doing = what

    def lock(self) -> None:
        """Keep other flashes away until `close`, after what one before may have left running."""
        self.call("lock", seconds=_LOCK_SECONDS)

    def missing(self, files: Sequence[File]) -> list[File]:
        """Return those files that are not there with the right content."""
        names = self.call("missing", files={file.name: file.sha256 for file in files})["missing"]
        return [file for file in files if file.name in set(names)]

    def send(self, file: File, sent: Sent | None = None) -> None:
        """Send a file; `sent` is called with the bytes of each piece.

        Raises
        ------
        DeviceError
            It cannot be written there, or the connection ended.
        """
        self.doing(f"{file.source.name} was copied")
        request = {"do": "receive", "name": file.name, "nbytes": file.nbytes, "wanted": file.sha256}
        data = file.source.read_bytes()
        try:
            self._channel.write(json.dumps(request).encode() + b"\n")
            for start in range(0, file.nbytes, _CHUNK_BYTES):
                piece = data[start : min(start + _CHUNK_BYTES, file.nbytes)]
                self._channel.write(piece)
                if sent is not None:
                    sent(len(piece))
        except OSError:
            raise self._lost() from None
        self._answer(None)

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        root: bool = False,
        line: Callable[[str], None] | None = None,
    ) -> Done:
        """Run a command; `line` is called with each line of its standard error."""
        request = {
            "do": "run",
            "command": list(command),
            "environment": dict(environment or {}),
            "root": root,
            "password": self.password,
        }
        return Done(**self._ask(request, line))

    def become_root(self, ask: Callable[[str], str | None], why: str) -> None:
        """See that commands can run as root, with a password where one is needed.

        Parameters
        ----------
        ask : callable
            Returns a password for a prompt, None where nobody can be asked.
        why : str
            What for, as in "root must" do something.

        Raises
        ------
        DeviceError
            They cannot.
        """
        found = self.call("sudo", password=None)["sudo"]
        if found == "ask":
            prompt = f"Password of {self.facts['user']} on {self.name}, for sudo: "
            password = self.password or ask(prompt)
            if password is not None:
                found = self.call("sudo", password=password)["sudo"]
                self.password = password
        if found != "yes":
            raise DeviceError(
                f"Root must {why} on {self.name}, and {self.facts['user']} cannot become root "
                f"{'without the right password' if found == 'ask' else 'there'}: give the password "
                "when asked or in VDLA_BOARD_PASSWORD, allow sudo without one, or log in as root"
            )

    def close(self) -> None:
        """Hang up."""
        self._channel.close()


@cache
def _source() -> bytes:
    return Path(onboard.__file__).read_bytes()


def _command(python: str | None) -> str:
    """Return the shell command that reads `onboard` from standard input and runs it."""
    least = LEAST_PYTHON
    start = (
        f"import sys\nv = sys.version_info\nif v < {least}:\n"
        f"    print('{_OLD} %d.%d' % v[:2])\n    sys.exit()\n"
        f"code = compile(sys.stdin.buffer.read({len(_source())}), 'vdla-onboard', 'exec')\n"
        "exec(code, {'__name__': '__main__'})\n"
    )
    choose = (
        f"P={PYNQ_PYTHON}; [ -x $P ] || P=python3" if python is None else f"P={shlex.quote(python)}"
    )
    return shlex.join(["sh", "-c", f'{choose}; exec "$P" -c "$0"', start])


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


class LocalChannel:
    """A command on this machine.

    Parameters
    ----------
    command : str
        For the shell.
    """

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        )

    def write(self, data: bytes) -> None:
        """Send all of `data`."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def readline(self) -> bytes:
        """Return the next line; nothing at the end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def failure(self) -> tuple[int | None, str]:
        """Return the exit code and what went to standard error."""
        _, said = self._process.communicate()
        return self._process.returncode, said.decode(errors="replace")

    def close(self) -> None:
        """End its input, and wait for it."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
