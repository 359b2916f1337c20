"""What candidates cost on a board over SSH: built here, sent there, and run by its own Python."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.errors import DeviceError, ProgramError
from vdla.runtime.flash.address import parse_address
from vdla.runtime.flash.connect import on_board
from vdla.runtime.flash.remote import ENVIRONMENT, require_vdla

from .devices import Built, OnDevice

if TYPE_CHECKING:
    from vdla.runtime.flash.machine import Machine

__all__ = ["OnBoard"]

_CANDIDATE = "files/tune/candidate"
"""Where it lies on the board, one after the other."""


@dataclass(frozen=True)
class OnBoard(OnDevice):
    """Counts cycles on a board on the network; nobody is asked for a password.

    Parameters
    ----------
    device : str
        Its name there; the environment variable ``VDLA_REMOTE_DEVICE`` says another.
    config : Config
    host : str
        ``USER@HOST:PORT``; user and port may be left out.
    """

    host: str

    def prepare(self) -> None:
        """See that the board can be reached, and that its vdla is this one.

        Raises
        ------
        DeviceError
            It cannot, or is not.
        """
        with self._reached():
            pass

    def run(self, built: Built, to_beat: float) -> float:
        """Return the cycles of what was built, on the board.

        Raises
        ------
        ProgramError
            The board computes something else.
        DeviceError
            It cannot be reached, or says why it cannot measure.
        """
        from vdla.runtime.flash.machine import File

        with self._reached() as machine, tempfile.TemporaryDirectory() as here:
            machine.lock()
            path = Path(here, "candidate")
            path.write_bytes(pickle.dumps(built))
            machine.send(File.of(path, _CANDIDATE))
            folder, device = machine.facts["folder"], os.environ.get(ENVIRONMENT) or self.device
            root = device == self.device and not machine.facts["root"]
            if root:
                machine.become_root(lambda prompt: None, "drive the accelerator")
            command = [machine.facts["executable"], "-m", "vdla.runtime.tune.onboard"]
            machine.doing("a candidate ran")
            done = machine.run(
                [*command, device, f"{folder}/{_CANDIDATE}"],
                environment={"VDLA_OVERLAYS": f"{folder}/overlays"},
                root=root,
            )
            try:
                found = json.loads(done.output)
            except ValueError:
                said = [line for line in done.said if line.strip()] or [f"exit code {done.code}"]
                found = {"error": said[-1], "kind": "device"}
            if "cycles" not in found:
                kind = ProgramError if found["kind"] == "program" else DeviceError
                raise kind(f"On {machine.name}: {found['error']}")
        return float(found["cycles"])

    @contextmanager
    def _reached(self) -> Iterator[Machine]:
        with on_board(parse_address(self.host)) as machine:
            require_vdla(machine)
            yield machine
