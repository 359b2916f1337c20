"""A board for tests: the ARM userland, its SSH server, and a user's home on this side."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.arm.server import Wire, ssh_server
from tests.arm.userland import USER, Userland, cached_root
from tests.cli.conftest import vdla_command as vdla_command
from vdla.runtime.cache import cache_folder


@dataclass(frozen=True)
class Board:
    """A board and the way to it."""

    userland: Userland
    port: int
    identity: Path

    @property
    def host(self) -> str:
        return f"{USER}@127.0.0.1:{self.port}"


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """Return a board with nothing of ours on it; a test that installs takes a copy."""
    folder = tmp_path_factory.mktemp("board")
    userland = cached_root().copy(folder / "root")
    identity = folder / "identity"
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(identity)]
    subprocess.run(keygen, check=True)
    public = identity.with_suffix(".pub").read_text(encoding="ascii")
    with ssh_server(userland, public) as port:
        yield Board(userland, port, identity)
    shutil.rmtree(userland.root)  # pytest would keep it for three sessions


@pytest.fixture
def wire(board: Board) -> Iterator[Wire]:
    """Return a way to the board that can be cut."""
    one = Wire(board.port)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a home of its own: known hosts, no keys, no agent."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("VDLA_CACHE", str(cache_folder("any").parent))  # it stays where it is
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.delenv("VDLA_BOARD_PASSWORD", raising=False)
    monkeypatch.delenv("VDLA_OVERLAYS", raising=False)
    return folder
