"""The end of a connection that runs on the board: it answers requests, one JSON object a line.

Its source is sent to the board's Python, so it needs nothing there but the standard library, and
no package of ours. A request is ``{"do": name, ...}``; the answer is ``{"ok": {...}}`` or
``{"error": text, "kind": word}``, after any number of ``{"line": text}`` while a command runs. It
ends when its standard input does; a command it started then runs to its end, and the lock is held
until then.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

HELLO = "vdla-board-1"
"""Precedes the first answer: what a shell prints before it is not ours."""

FOLDER = Path.home() / ".local/share/vdla"
CHUNK_BYTES = 1 << 16
LAST_LINES = 200  # of a command's output, kept for the reader of an error


class RefusedError(Exception):
    """Something that is not as it must be; the other side makes a sentence of its kind."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _site() -> Path:
    return Path(sysconfig.get_paths()["purelib"])


def _board() -> str:
    """Return what the board's image calls the board; PYNQ's name it in the device tree."""
    try:
        text = Path("/proc/device-tree/chosen/pynq_board").read_text(encoding="utf-8")
    except OSError:
        text = os.environ.get("BOARD", "")
    return text.strip("\0\n ")


def describe() -> dict[str, Any]:
    """Return what there is: Python, packages, room, rights."""
    site = _site()
    packages = ("numpy", "pip", "pynq", "vdla")
    managed = Path(os.__file__).with_name("EXTERNALLY-MANAGED")
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "folder": str(FOLDER),
        "machine": platform.machine(),
        "board": _board(),
        "user": os.environ.get("USER") or str(os.geteuid()),
        "root": os.geteuid() == 0,
        "packages": {name: _version(name) for name in packages},
        "site": str(site),
        "writable": os.access(site, os.W_OK),
        "managed": sys.prefix == sys.base_prefix and managed.exists(),
        "free_bytes": _free(FOLDER),
        "site_free_bytes": _free(site),
    }


def _free(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def lock(seconds: float) -> dict[str, Any]:
    """Take the lock that one connection holds at a time, until this process ends."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    handle = (FOLDER / "lock").open("w")
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                raise RefusedError("locked", "") from None
            time.sleep(0.2)
        else:
            _held.append(handle)
            return {}


_held: list[Any] = []


def sha256(path: Path) -> str:
    """Return a file's SHA-256, empty where there is no file."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()


def missing(files: dict[str, str]) -> dict[str, Any]:
    """Return which of `files` (SHA-256 by path below the folder) are not there as they should."""
    return {"missing": [name for name, wanted in files.items() if sha256(FOLDER / name) != wanted]}


def receive(source: BinaryIO, name: str, nbytes: int, wanted: str) -> dict[str, Any]:
    """Write a file that follows on standard input: under another name until it is whole."""
    path = FOLDER / name
    partial = path.with_name(path.name + ".partial")
    pieces = _pieces(source, nbytes)
    digest = hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb", buffering=0) as file:
            for piece in pieces:
                digest.update(piece)
                while piece:
                    piece = piece[file.write(piece) :]
            os.fsync(file.fileno())  # a board is switched off by pulling its plug
        if digest.hexdigest() == wanted:
            partial.replace(path)
            return {}
    except OSError as error:
        for _ in pieces:  # the next request follows the file
            pass
        with suppress(OSError):
            partial.unlink()
        raise RefusedError("write", f"{path}: {error.strerror}") from None
    partial.unlink()
    raise RefusedError("damaged", str(path))


def _pieces(source: BinaryIO, nbytes: int) -> Iterator[bytes]:
    while nbytes:
        piece = source.read(min(nbytes, CHUNK_BYTES))
        if not piece:
            raise EOFError
        nbytes -= len(piece)
        yield piece


def keep(folder: str, names: list[str]) -> dict[str, Any]:
    """Remove what else is in a folder."""
    for path in (FOLDER / folder).glob("*"):
        if path.name not in names and path.is_file():
            path.unlink()
    return {}


def trim(folder: str, most_bytes: int, used: list[str]) -> dict[str, Any]:
    """Remove what was unused for longest from a folder of folders, until the rest is small."""
    for name in used:
        os.utime(FOLDER / folder / name)
    groups = sorted((FOLDER / folder).glob("*"), key=lambda group: -group.stat().st_mtime)
    total = 0
    for group in groups:
        total += sum(path.stat().st_size for path in group.rglob("*") if path.is_file())
        if total > most_bytes and group.name not in used:
            shutil.rmtree(group, ignore_errors=True)
    return {}


def sudo(password: str | None) -> dict[str, Any]:
    """Return whether commands can run as root: ``yes``, ``no``, or ``ask`` for a password."""
    if os.geteuid() == 0:
        return {"sudo": "yes"}
    if shutil.which("sudo") is None:
        return {"sudo": "no"}
    without = ["sudo", "-n", "true"]
    how = without if password is None else ["sudo", "-S", "-k", "-p", "", "true"]
    given = None if password is None else password + "\n"
    done = subprocess.run(how, input=given, text=True, capture_output=True, check=False)
    return {"sudo": "yes" if done.returncode == 0 else "ask"}


def run(command: list[str], environment: dict[str, str], root: bool, password: str | None) -> Any:
    """Run a command, send each line it prints, and return its exit code and outputs."""
    setting = [f"{name}={value}" for name, value in environment.items()]
    words = ["env", *setting, *command]
    given = ""
    if root:
        # A login shell has what PYNQ's /etc/profile.d sets for pynq and its runtime.
        words = ["bash", "-lc", 'exec "$@"', "bash", *words]
        if os.geteuid() != 0:
            how = ["-n"] if password is None else ["-S", "-k", "-p", ""]
            words = ["sudo", *how, "-H", "--", *words]
            given = "" if password is None else password + "\n"
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it ended before it read anything, and says why
            process.stdin.write(given)
            process.stdin.close()
        collected: list[str] = []
        stdout = process.stdout

        def collect() -> None:
            collected.append(stdout.read())

        reader = threading.Thread(target=collect)
        reader.start()
        said: list[str] = []
        for line in process.stderr:
            said = [*said[-LAST_LINES:], line.rstrip("\n")]
            answer({"line": line.rstrip("\n")})
        reader.join()
    return {"code": process.returncode, "output": collected[0], "said": said}


def write(name: str, text: str) -> dict[str, Any]:
    """Write a small text."""
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return {}


def read(name: str) -> dict[str, Any]:
    """Return a small text, empty where there is none."""
    try:
        return {"text": (FOLDER / name).read_text(encoding="utf-8")}
    except OSError:
        return {"text": ""}


_output = sys.stdout
_hung_up = False


def answer(value: dict[str, Any]) -> None:
    """Send one answer; to nobody, where the connection is gone."""
    global _hung_up
    if _hung_up:
        return
    try:
        _output.write(json.dumps(value) + "\n")
        _output.flush()
    except OSError:
        _hung_up = True


def serve(source: BinaryIO) -> None:
    """Answer requests until there are no more."""
    actions = {f.__name__: f for f in (describe, lock, missing, keep, trim, sudo, run, write, read)}
    _output.write(f"\n{HELLO}\n")
    _output.flush()
    while request_line := source.readline():
        request = json.loads(request_line)
        name = request.pop("do")
        try:
            if name == "receive":
                answer({"ok": receive(source, **request)})
            else:
                answer({"ok": actions[name](**request)})
        except EOFError:
            return
        except RefusedError as refusal:
            answer({"error": str(refusal), "kind": refusal.kind})
        except OSError as error:
            text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            answer({"error": text, "kind": "write"})


if __name__ == "__main__":
    serve(sys.stdin.buffer)
