from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import vdla
from tests.runtime.flash.conftest import write_overlay
from vdla.config import TINY
from vdla.runtime.board.overlay import config_here


def test_the_command(vdla_command: Any) -> None:
    outcome = vdla_command("selftest", "--device", "cycle", "--config", "TINY", "--json")
    report = json.loads(outcome.out)
    assert outcome.code == 0
    assert report["passed"]
    assert report["checks"][-1]["grade"] == "network"
    assert report["checks"][-1]["ratio"] == 1.0


def test_the_command_fails_where_something_is_different(
    vdla_command: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("vdla.runtime.selftest.run.memory_wrong", lambda *arguments: "it differs")
    outcome = vdla_command("selftest", "--device", "functional", "--config", "TINY")
    assert outcome.code == 1
    assert "fetch, finish: it differs" in outcome.out
    assert "functional, tiny: 35 of 37 checks failed" in outcome.out


def test_a_file_says_its_configuration(vdla_command: Any, tmp_path: Path) -> None:
    file = tmp_path / "net.vdla"
    vdla.compile("digits", config=TINY).save(file)
    outcome = vdla_command("selftest", file, "--device", "functional")
    assert outcome.code == 0
    assert "functional, tiny: 37 checks, none failed" in outcome.out


def test_a_board_says_its_configuration(
    vdla_command: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Not PYNQ_Z1's, which an MPSoC's overlay would be refused for."""
    monkeypatch.setenv("BOARD", "ZCU104")
    monkeypatch.setenv("VDLA_OVERLAYS", str(tmp_path))
    monkeypatch.delenv("VDLA_OVERLAY", raising=False)
    assert (
        "An overlay for zcu104 must be in one of"
        in vdla_command("selftest", "--device", "pynq").err
    )
    write_overlay(tmp_path / "zcu104", "zcu104", vdla.ZCU104)
    assert config_here() == vdla.ZCU104
    (tmp_path / "own").mkdir()
    own = write_overlay(tmp_path / "own/zcu104", "zcu104", vdla.ZCU104.replace(inp_bytes=16384))
    monkeypatch.setenv("VDLA_OVERLAYS", str(own.parent))
    assert (
        "must come from its file: give --config FILE.toml"
        in vdla_command("calibrate", "--device", "pynq", "--measure", tmp_path / "c.json").err
    )


def test_only_run_reaches_over_the_network(vdla_command: Any) -> None:
    outcome = vdla_command("selftest", "--device", "pynq@host")
    assert outcome.code == 2
    assert "Only vdla run reaches a board over the network, and 'pynq@host' is one" in outcome.err
