"""Running a command of vdla on a board, with files that are here."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import vdla
from vdla.errors import DeviceError, InputError
from vdla.runtime.flash.address import parse_address
from vdla.runtime.flash.connect import on_board
from vdla.runtime.flash.install import Ask, Progress, vdla_on
from vdla.runtime.flash.machine import File, Machine

__all__ = ["ENVIRONMENT", "require_vdla", "run_remote"]

KEPT_BYTES = 1 << 30
"""What networks and images that were sent may take on the board; the longest unused go first."""
ENVIRONMENT = "VDLA_REMOTE_DEVICE"
"""The device to use there in place of ``pynq``."""


def run_remote(
    host: str,
    arguments: Sequence[str],
    files: Sequence[Path] = (),
    *,
    device: str | None = None,
    python: str | None = None,
    identity: Path | None = None,
    accept_new_host_key: bool = False,
    ask: Ask = lambda prompt: None,
    progress: Progress | None = None,
    line: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run ``vdla run`` on a board and return what it prints with ``--json``.

    Files are sent once: the board keeps them by their content.

    Parameters
    ----------
    host : str
        ``USER@HOST:PORT``; user and port may be left out.
    arguments : sequence of str
        For ``vdla run``, without ``--device`` and ``--json``.
    files : sequence of Path
        Files and folders that `arguments` name, as ``str(path)``.
    device : str, optional
        ``pynq``, unless the environment variable ``VDLA_REMOTE_DEVICE`` says otherwise.
    python : str, optional
        The Python to use there.
    identity : Path, optional
        A private key.
    accept_new_host_key : bool
        Whether a board that was never seen is believed.
    ask : callable
        Returns a password for a prompt, None where nobody can be asked.
    progress : callable, optional
        Called with KiB sent, KiB in all, and what is being done.
    line : callable, optional
        Called with each line that the board writes to standard error.

    Raises
    ------
    DeviceError
        The board cannot be reached, has no vdla or another version of it, or the run fails there;
        then the text is the board's own.
    InputError
        A file is not there, or two of them have one name and content.
    """
    device = device or os.environ.get(ENVIRONMENT) or "pynq"
    groups = {str(path): _group(path) for path in files}
    tell = progress or (lambda done, total, doing: None)
    tell(0, 1, f"logging in on {host}")
    with on_board(
        parse_address(host),
        python=python,
        identity=identity,
        accept_new_host_key=accept_new_host_key,
        ask=ask,
    ) as machine:
        return _run(machine, arguments, groups, device, ask, tell, line)


def _run(
    machine: Machine,
    arguments: Sequence[str],
    groups: dict[str, tuple[str, list[File]]],
    device: str,
    ask: Ask,
    tell: Progress,
    line: Callable[[str], None] | None,
) -> dict[str, Any]:
    require_vdla(machine)
    every = {file.name: file for _, members in groups.values() for file in members}
    missing = machine.missing(list(every.values()))
    total, done = sum(file.nbytes for file in missing), 0
    for file in missing:
        tell(done >> 10, total >> 10, f"copying {file.source.name}")
        machine.send(file)
        done += file.nbytes
    used = [place.split("/")[1] for place, _ in groups.values()]
    machine.call("trim", folder="files", most_bytes=KEPT_BYTES, used=used)

    root = device == "pynq" and not machine.facts["root"]
    if root:
        machine.become_root(ask, "drive the accelerator")
    folder = machine.facts["folder"]
    there = {name: f"{folder}/{place}" for name, (place, _) in groups.items()}
    words = [there.get(argument, argument) for argument in arguments]
    command = [*vdla_on(machine), "run", *words, "--device", device, "--json"]
    tell(1, 1, "running")
    machine.doing("the network ran")
    environment = {"VDLA_OVERLAYS": f"{folder}/overlays"}
    result = machine.run(command, environment=environment, root=root, line=line)
    try:
        found = json.loads(result.output)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        said = [text for text in result.said if text.strip()]
        why = said[-1].removeprefix("vdla: ") if said else f"exit code {result.code}"
        raise DeviceError(f"On {machine.name}: {why}")
    return found


def require_vdla(machine: Machine) -> None:
    """Refuse a board that has another vdla than this computer.

    Raises
    ------
    DeviceError
        It has, or none.
    """
    found = machine.facts["packages"]["vdla"]
    if found != vdla.__version__:
        raise DeviceError(
            f"A board must have the vdla that sends it work, {vdla.__version__}, and "
            f"{machine.name} has {found or 'none'}: install it with: vdla flash --host "
            f"{machine.name}"
        )


def _group(path: Path) -> tuple[str, list[File]]:
    """Return where a file or folder goes, below vdla's folder, and the files it is made of."""
    if path.is_file():
        members = [(path, path.name)]
    elif path.is_dir():
        below = sorted(one for one in path.rglob("*") if one.is_file())
        members = [(one, f"{path.name}/{one.relative_to(path).as_posix()}") for one in below]
    else:
        raise InputError(f"What is sent to a board must be here, and there is no {path}")
    hashed = [File.of(one, name) for one, name in members]
    content = json.dumps([(file.name, file.sha256) for file in hashed]).encode()
    key = hashlib.sha256(content).hexdigest()[:16]
    files = [File(f.source, f"files/{key}/{f.name}", f.sha256, f.nbytes) for f in hashed]
    return f"files/{key}/{path.name}", files
