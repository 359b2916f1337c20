"""Tests that run real pynq, each version in an environment of its own: ``tox run -e pynq3,pynq4``.

pynq asks for numpy before version 2, so these do not run with the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vdla.boards import BOARDS

if TYPE_CHECKING:
    from tests.pynq.board import RtlBoard

collect_ignore_glob = [] if find_spec("pynq") else ["test_*.py"]


@pytest.fixture(scope="session")
def machine() -> RtlBoard:
    """pynq's active device: the only one that it finds here."""
    import pynq

    from tests.pynq.board import RtlBoard

    assert isinstance(pynq.Device.active_device, RtlBoard)
    return pynq.Device.active_device


@pytest.fixture
def name() -> str:
    """A board that this pynq is for: 4.0 has no Zynq-7000."""
    import pynq

    return "pynq-z1" if pynq.__version__.startswith("3.") else "zcu104"


@pytest.fixture
def board(
    machine: RtlBoard, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RtlBoard]:
    """A board that has just been switched on, with nothing in its FPGA."""
    monkeypatch.setenv("BOARD", name.upper())
    monkeypatch.setenv("VDLA_OVERLAYS", str(tmp_path / "overlays"))
    monkeypatch.delenv("VDLA_OVERLAY", raising=False)
    from vdla.runtime.board import overlay

    locks = []

    class Kept(overlay.BoardLock):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            locks.append(self)

    monkeypatch.setattr(overlay, "BoardLock", Kept)
    machine.plug(BOARDS[name])
    yield machine
    machine.switch_off()
    for lock in locks:  # of a test that failed
        lock.release()
