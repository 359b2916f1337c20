"""How much of the generated design the co-simulation of TINY runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.configs import VARIANTS
from tests.hw.cosim import coverage

pytestmark = pytest.mark.rtl

HERE = Path(__file__).parent
FILES = ("test_programs.py", "test_stops.py", "test_reset.py", "test_corners.py")
OTHERS = ("pynq-z1", "1x8x8", "2x16x16", "1x16x32", "halved", "queue_is", *VARIANTS)
LEAST = 0.95


def test_lines_of_tiny(tmp_path: Path) -> None:
    environment = {**os.environ, "VDLA_COVERAGE": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    files = [str(HERE / name) for name in FILES]
    root = HERE.parents[2]
    done = subprocess.run(
        [*command, *files, "-k", " and ".join(f"not {name}" for name in OTHERS)],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    (report,) = coverage.read(tmp_path)
    assert report.config.name == "tiny"
    assert len(report.lines) > 5000
    assert report.line_share >= LEAST, str(report)
    assert report.branch_share >= LEAST, str(report)
