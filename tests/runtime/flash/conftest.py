"""This machine as the board: a home of its own, and a Python with what a PYNQ image has."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import vdla
from tests.cli.conftest import vdla_command as vdla_command
from vdla.bitstreams import BIT, HWH, Manifest, sha256
from vdla.config import Config

# Stand-ins that write down how they are called; what they stand for runs in tests/arm.
PIP = """\
import sys
from pathlib import Path
with Path(__file__).with_name("calls").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if Path(__file__).with_name("fail").exists():
    sys.exit("ERROR: no such luck")
"""
SELFTEST = """\
import json, os, sys
from pathlib import Path
checks = [{"grade": "tokens", "name": "pass", "status": "passed", "detail": ""}]
if Path(__file__).with_name("fail").exists():
    checks += [{"grade": "gemm", "name": "one", "status": "FAILED", "detail": "1 not 2"}]
report = {"argv": sys.argv[1:], "overlay": os.environ.get("VDLA_OVERLAY"), "checks": checks}
print(json.dumps(report))
sys.exit(len(checks) - 1)
"""


@dataclass(frozen=True)
class Image:
    """A Python like that of a board's image."""

    python: Path
    site: Path

    @property
    def pip_calls(self) -> list[str]:
        log = self.site / "pip/calls"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def distribution(self, name: str, version: str) -> None:
        folder = self.site / f"{name}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("BOARD", "Pynq-Z1")
    monkeypatch.delenv("VDLA_OVERLAYS", raising=False)
    return folder


@pytest.fixture
def image(tmp_path: Path) -> Image:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    site = next((tmp_path / "venv").glob("lib/python3*/site-packages"))
    one = Image(tmp_path / "venv/bin/python3", site)
    for name, version in {"numpy": "1.24.0", "pip": "23.0", "pynq": "3.1.1"}.items():
        one.distribution(name, version)
    for folder, text in {"pip": PIP, "vdla/runtime/cli": SELFTEST}.items():
        (site / folder).mkdir(parents=True)
        (site / folder / "__main__.py").write_text(text, encoding="utf-8")
    return one


def write_overlay(folder: Path, board: str = "pynq-z1", config: Config = vdla.PYNQ_Z1) -> Path:
    folder.mkdir()
    for name in (BIT, HWH):
        (folder / name).write_text(name, encoding="ascii")
    Manifest(
        board=board,
        config=config.name,
        config_hash=f"{config.hash:016x}",
        clock_mhz=100.0,
        slack_ns=0.1,
        tool="vivado",
        tool_version="2023.1",
        date="2026-01-01T00:00:00",
        files={name: sha256(folder / name) for name in (BIT, HWH)},
        folder=folder,
    ).write()
    return folder


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    return write_overlay(tmp_path / "overlay")
