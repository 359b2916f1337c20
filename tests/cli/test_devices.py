from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.flash.conftest import write_overlay
from vdla.runtime.board import found, memory
from vdla.runtime.opencl import OpenClDevice

Vdla = Callable[..., Any]


@pytest.fixture
def no_board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BOARD", raising=False)
    monkeypatch.setenv("VDLA_OVERLAYS", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.usefixtures("no_board")
def test_devices_are_listed_with_what_is_missing(vdla_command: Vdla) -> None:
    outcome = vdla_command("devices")
    assert outcome.code == 0
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["functional", "ready", "results", "numpy"] in lines
    assert "for pynq: this machine is none of pynq-z1, pynq-z2," in outcome.out
    assert "for functional" not in outcome.out


@pytest.mark.usefixtures("no_board")
def test_devices_as_json(vdla_command: Vdla) -> None:
    rows = json.loads(vdla_command("devices", "--json").out)["devices"]
    assert [row["name"] for row in rows] == [
        *("functional", "cycle", "rtl", "pynq", "cpu", "opencl", "cuda")
    ]
    assert [row["ready"] for row in rows[:2]] == [True, True]
    assert not rows[3]["ready"]
    assert rows[3]["details"]["board"] is None


@pytest.mark.usefixtures("no_board")
def test_gpus_are_listed(vdla_command: Vdla, pocl: OpenClDevice) -> None:
    rows = {
        row["name"]: row for row in json.loads(vdla_command("devices", "--json").out)["devices"]
    }
    first = OpenClDevice()
    assert rows["opencl"]["has"] == first.name
    assert rows["opencl"]["details"] == {"processor": first.on_processor}
    if not rows["cuda"]["ready"]:
        assert rows["cuda"]["missing"][0].startswith("CUDA needs ")


@pytest.mark.usefixtures("no_board")
def test_a_board_is_found(
    vdla_command: Vdla, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    version = metadata.version
    monkeypatch.setattr(
        found.metadata, "version", lambda name: "3.1.2" if name == "pynq" else version(name)
    )
    monkeypatch.setenv("BOARD", "Pynq-Z1")
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("CmaTotal:       131072 kB\nCmaFree:    65536 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    assert "for pynq: An overlay for pynq-z1 must be in one of" in vdla_command("devices").out
    folder = write_overlay(tmp_path / "pynq-z1")
    row = json.loads(vdla_command("devices", "--json").out)["devices"][3]
    assert row["ready"]
    assert row["has"] == (
        f"pynq-z1, pynq 3.1.2, overlay pynq-z1 at 100 MHz in {folder}, "
        "64 of 128 MiB contiguous memory free"
    )
    assert row["details"]["contiguous_bytes_free"] == 64 << 20
