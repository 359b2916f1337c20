"""Fakes of the tools that make bitstreams, first on PATH."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def program(folder: Path, name: str, text: str) -> Path:
    """Write an executable script."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, first on PATH, for fakes."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def tclsh() -> str:
    """Tcl's shell."""
    found = shutil.which("tclsh")
    if found is None:
        pytest.skip("needs tclsh; install it with: apt-get install tcl")
    return found


@pytest.fixture
def vivado(tools: Path, tclsh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Vivado, played by the recorder; the file that gets the design."""
    program(tools, "vivado", f'#!/bin/sh\nexec {tclsh} {HERE / "recorder.tcl"} "$@"\n')
    record = tmp_path / "record"
    monkeypatch.setenv("RECORD", str(record))
    return record
