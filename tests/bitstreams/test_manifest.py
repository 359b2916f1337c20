"""Manifests of overlays: found in order, and refused when anything is not as it was built."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from vdla.bitstreams import Manifest, find, places, read
from vdla.config import PYNQ_Z1, TINY
from vdla.errors import OverlayError

CONTENTS = {"vdla.bit": b"bits", "vdla.hwh": b"<EDKSYSTEM/>"}


def overlay(folder: Path, **changes: Any) -> Manifest:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in CONTENTS.items():
        (folder / name).write_bytes(data)
    values: dict[str, Any] = {
        "board": "pynq-z1",
        "config": "pynq-z1",
        "config_hash": f"{PYNQ_Z1.hash:016x}",
        "clock_mhz": 100.0,
        "slack_ns": 0.125,
        "tool": "Vivado",
        "tool_version": "2024.1",
        "date": "2026-01-02T03:04:05+00:00",
        "files": {name: sha256(data).hexdigest() for name, data in CONTENTS.items()},
        "folder": folder,
    }
    return Manifest(**values | changes)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        values[name] = value
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("VDLA_OVERLAYS", raising=False)
    return tmp_path / "home"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = overlay(tmp_path / "a")
    assert written.write() == tmp_path / "a" / "manifest.json"
    found = read(tmp_path / "a")
    assert found == written
    assert found.bit.read_bytes() == b"bits"
    assert found.hwh == tmp_path / "a" / "vdla.hwh"
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "manifest.json",
        "vdla.bit",
        "vdla.hwh",
    ]


def test_a_copied_overlay_is_read_where_it_is(tmp_path: Path) -> None:
    overlay(tmp_path / "a").write()
    (tmp_path / "a").rename(tmp_path / "b")
    assert read(tmp_path / "b").bit == tmp_path / "b" / "vdla.bit"


def test_failed_timing_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OverlayError) as error:
        overlay(tmp_path, slack_ns=-0.25).write()
    assert str(error.value) == (
        "An overlay's timing must be met, and its worst slack at 100 MHz is -0.250 ns: build it "
        "for a lower clock, with --clock"
    )
    assert not (tmp_path / "manifest.json").exists()


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    overlay(tmp_path).write()
    (tmp_path / "vdla.bit").write_bytes(b"bitz")
    with pytest.raises(OverlayError) as error:
        read(tmp_path)
    was, now = sha256(b"bits").hexdigest(), sha256(b"bitz").hexdigest()
    assert str(error.value) == (
        f"A file of an overlay must be as it was built, with SHA-256 {was}, and has {now}: "
        f"{tmp_path / 'vdla.bit'}: build the overlay or copy it again"
    )


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    overlay(tmp_path).write()
    (tmp_path / "vdla.hwh").unlink()
    with pytest.raises(OverlayError) as error:
        read(tmp_path)
    assert str(error.value) == (
        f"An overlay must have all its files: {tmp_path / 'vdla.hwh'}: No such file or directory: "
        "build the overlay or copy it again"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "must be of format 1, which this vdla reads, not 2"),
        ({"interface": [2, 0]}, "registers must be of version 1, which this vdla speaks, not 2"),
        ({"board": None}, "must give board as str, not None"),
        ({"clock_mhz": "fast"}, "must give clock_mhz as float, not 'fast'"),
        ({"interface": [1]}, r"must give interface as tuple\[int, int\], not \[1\]"),
        ({"files": {"vdla.bit": 7}}, "must give files as dict"),
        ({"files": {}}, "must list vdla.bit, and lists nothing"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path: Path, changes: Any, said: str) -> None:
    overlay(tmp_path).write()
    edit(tmp_path, **changes)
    with pytest.raises(OverlayError, match=said):
        read(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "must be JSON"), ("[]", "must be a JSON object"), ("", "must be JSON")],
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(OverlayError, match=said):
        read(tmp_path)


def test_the_first_place_that_has_one_is_taken(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flashed = home / ".local/share/vdla/overlays/pynq-z1"
    overlay(flashed).write()
    assert find("pynq-z1").folder == flashed
    monkeypatch.setenv("VDLA_OVERLAYS", str(tmp_path / "mine"))
    assert find("pynq-z1").folder == flashed
    overlay(tmp_path / "mine/pynq-z1").write()
    assert find("pynq-z1").folder == tmp_path / "mine/pynq-z1"


def test_where_there_is_none_the_places_are_named(home: Path) -> None:
    with pytest.raises(OverlayError) as error:
        find("board-9")
    first, second = places("board-9")
    assert first == home / ".local/share/vdla/overlays/board-9"
    assert str(error.value) == (
        f"An overlay for board-9 must be in one of {first}, {second}: build one with: vdla "
        "bitstream --board board-9"
    )


def test_an_overlay_of_another_board_is_refused(home: Path) -> None:
    folder = home / ".local/share/vdla/overlays/pynq-z2"
    overlay(folder).write()
    with pytest.raises(OverlayError) as error:
        find("pynq-z2")
    assert str(error.value) == (
        f"An overlay for pynq-z2 must be in {folder}, not one for pynq-z1: build it with: vdla "
        f"bitstream --board pynq-z2 -o {folder}"
    )


def test_an_overlay_of_another_configuration_is_refused(tmp_path: Path) -> None:
    made = overlay(tmp_path)
    made.require(PYNQ_Z1)
    made.require(PYNQ_Z1.replace(clock_mhz=50.0))  # the same machine
    with pytest.raises(OverlayError) as error:
        made.require(TINY)
    assert str(error.value) == (
        f"An overlay must be of the configuration asked for, tiny (hash {TINY.hash:016x}), not "
        f"pynq-z1 (hash {PYNQ_Z1.hash:016x}): {tmp_path}: build it with: vdla bitstream --board "
        "pynq-z1"
    )


def test_the_hash_is_taken_of_all_files(tmp_path: Path) -> None:
    made = overlay(tmp_path)
    (tmp_path / "timing.txt").write_bytes(b"met")
    more = replace(made, files={**made.files, "timing.txt": sha256(b"met").hexdigest()})
    more.write()
    assert read(tmp_path).files["timing.txt"] == sha256(b"met").hexdigest()
