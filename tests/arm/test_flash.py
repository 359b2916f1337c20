"""From an empty board to scores, through every interruption: real ARM Python, pip and sshd."""

from __future__ import annotations

import functools
import json
import shutil
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from tests.arm.conftest import Board
from tests.arm.server import Wire
from tests.arm.userland import PYNQ_PYTHON, USER
from vdla.compiler.zoo.digits import digits_held_out
from vdla.errors import DeviceError
from vdla.runtime.cli.flash import ask_password
from vdla.runtime.flash import install
from vdla.runtime.flash.address import Address
from vdla.runtime.flash.cargo import Cargo
from vdla.runtime.flash.connect import on_board
from vdla.runtime.flash.install import flash
from vdla.runtime.flash.remote import run_remote
from vdla.runtime.flash.wheels import wheels_for

pytestmark = pytest.mark.slow

FOLDER = f"home/{USER}/.local/share/vdla"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    network = vdla.compile("digits")
    network.save(tmp_path / "digits.vdla")
    return tmp_path / "digits.vdla"


@pytest.fixture(autouse=True)
def built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep to one build of vdla, even where the source tree is edited while the tests run."""
    monkeypatch.setattr(install, "wheels_for", functools.cache(wheels_for))


def put(board: Board, wire: Wire, network: Path, progress: Any = None) -> dict[str, Any]:
    address = Address("127.0.0.1", USER, wire.port)
    cargo = Cargo(networks=[network], device="functional")
    with on_board(address, identity=board.identity, accept_new_host_key=True) as machine:
        return flash(machine, cargo, ask=ask_password, progress=progress)


def cut_half_way(wire: Wire) -> Any:
    """Return a progress callback that has the wire cut within the wheels, past the first one."""
    chosen = False

    def progress(done: int, total: int, doing: str) -> None:
        nonlocal chosen
        if doing.startswith("copying") and not chosen:
            chosen = True
            wire.cut_after(round(0.7 * total * 1024))

    return progress


def cut_when_it_installs(wire: Wire, site: Path) -> Any:
    """Return a progress callback that cuts the wire once pip has unpacked something."""

    def watch() -> None:
        while not (site / "pygments").exists():
            time.sleep(0.05)
        wire.cut()

    watcher = threading.Thread(target=watch, daemon=True)  # one: a second would cut the next flash

    def progress(done: int, total: int, doing: str) -> None:
        if doing == "installing" and watcher.ident is None:
            watcher.start()

    return progress


def test_an_empty_board_to_scores_through_interruptions(
    board: Board,
    wire: Wire,
    digits: Path,
    tmp_path: Path,
    home: Path,
    vdla_command: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = board.userland.root
    site = next((root / PYNQ_PYTHON[1:]).parents[1].glob("lib/python3*/site-packages"))
    folder = root / FOLDER

    # While files are copied the wire is cut: nothing that is there pretends to be whole.
    with pytest.raises(DeviceError, match=r"hung up while .*\.whl was copied: run the same"):
        put(board, wire, digits, cut_half_way(wire))
    arrived = list(folder.glob("wheels/*.whl"))
    assert arrived
    assert all(zipfile.is_zipfile(wheel) for wheel in arrived)
    assert not list(folder.glob("networks/*.vdla"))
    assert not (site / "vdla").exists()

    # While pip installs it is cut again, and pip works on alone: the next flash waits for it.
    sent_before = {f"wheels/{wheel.name}" for wheel in folder.glob("wheels/*.whl")}
    with pytest.raises(DeviceError, match="hung up while pip installed: run the same command"):
        put(board, wire, digits, cut_when_it_installs(wire, site))

    report = put(board, wire, digits)
    assert report["sent"] == []
    assert sent_before < set(report["present"])
    assert report["installed"] is True
    assert report["machine"] == "armv7l"
    assert report["selftest"]["device"] == "functional"
    assert report["selftest"]["passed"] is True
    assert "network" in {check["grade"] for check in report["selftest"]["checks"]}
    assert not list(folder.glob("*/*.partial"))

    # Nothing was compiled, and nothing is there but pure Python beside the image's numpy.
    listed = board.userland.run(PYNQ_PYTHON, "-m", "pip", "list", "--format=json").stdout
    names = {one["name"].lower() for one in json.loads(listed)}
    assert {"numpy", "vdla", "typer", "rich"} <= names
    assert names & {"numba", "pandas", "onnx", "pillow", "pydantic"} == set()
    assert list(site.rglob("*.so")) == []

    # What fails there fails here with the board's own words.
    with pytest.raises(DeviceError, match=rf"^On {USER}@127.0.0.1: A device must be one of .*"):
        run_remote(
            board.host,
            [str(digits)],
            [digits],
            device="abacus",
            identity=board.identity,
            accept_new_host_key=True,
        )

    # The scores are the host's: on the board itself, and from here.
    np.save(tmp_path / "images.npy", digits_held_out().images[:10])
    arguments = [str(digits), "--input", str(tmp_path / "images.npy")]
    here = vdla_command("run", *arguments, "--device", "functional", "--json")
    assert here.code == 0
    expected = json.loads(here.out)
    shutil.copy(board.identity, home / ".ssh/id_ed25519")  # where the command looks for it
    monkeypatch.setenv("VDLA_REMOTE_DEVICE", "functional")
    there = vdla_command("run", *arguments, "--device", f"pynq@{board.host}", "--json")
    assert there.code == 0, there.err
    found = json.loads(there.out)
    assert found["classes"] == expected["classes"]
    assert found["config_hash"] == expected["config_hash"]
    installed = f"/{FOLDER}/networks/digits.vdla"
    table = board.userland.run(
        PYNQ_PYTHON, "-m", "vdla.runtime.cli", "run", installed, "--device", "functional"
    ).stdout
    assert "classes (score): " in table
