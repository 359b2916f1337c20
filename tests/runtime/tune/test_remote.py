"""Candidates on a board on the network: this machine is the board, reached without SSH."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.tune.test_devices import some, template
from vdla.config import TINY
from vdla.errors import DeviceError, ProgramError
from vdla.runtime.flash import remote as flash_remote
from vdla.runtime.flash.connect import on_board
from vdla.runtime.flash.machine import Machine
from vdla.runtime.tune import remote
from vdla.runtime.tune.accelerator import cycles
from vdla.runtime.tune.devices import measure_on


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what measures on a board, whose device is the cycle model."""
    run = Machine.run

    @contextmanager
    def here(address: Any) -> Iterator[Machine]:
        assert (address.user, address.host) == ("xilinx", "pynq")
        with on_board(None, python=sys.executable) as machine:
            yield machine

    def with_path(self: Machine, command: Any, *, environment: Any, **others: Any) -> Any:
        """Run what is tested, wherever it is."""
        path = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        return run(self, command, environment={**environment, **path}, **others)

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VDLA_REMOTE_DEVICE", "cycle")
    monkeypatch.setattr(remote, "on_board", here)
    monkeypatch.setattr(Machine, "run", with_path)
    return measure_on("pynq@xilinx@pynq", TINY)


def test_a_board_on_the_network_counts(measure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = template()
    (point,) = some(made, 1)
    measure.prepare()
    built = measure.build(made, point)
    assert measure.run(built, 0.0) == cycles(made, point, 0.0)
    wrong = replace(built, expected=bytes(len(built.expected)))
    with pytest.raises(ProgramError, match="On this machine: a device must compute what the"):
        measure.run(wrong, 0.0)
    monkeypatch.setenv("VDLA_REMOTE_DEVICE", "functional")
    with pytest.raises(DeviceError, match="On this machine: Candidates must be measured where"):
        measure.run(built, 0.0)
    monkeypatch.setenv("VDLA_REMOTE_DEVICE", "abacus")
    with pytest.raises(DeviceError, match="On this machine: A device must be one of"):
        measure.run(built, 0.0)


def test_a_board_must_have_this_vdla(measure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash_remote.vdla, "__version__", "9.9")
    with pytest.raises(DeviceError, match=r"must have the vdla that sends it work, 9\.9, and"):
        measure.prepare()
