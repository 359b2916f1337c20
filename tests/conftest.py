"""What every test shares: the data beside the repository, and what may be skipped where."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Marks of tests that need what no CI machine can install.
MAY_SKIP_IN_CI = {"board", "gpu", "processor"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``, which rewrites the texts that golden tests compare with."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden texts")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of a name in the folder ``golden`` beside the test."""

    def compare(text: str, name: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The trained networks and images: ``../shared/data``, or where VDLA_DATA points."""
    folder = Path(os.environ.get("VDLA_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no trained networks in {folder}; set VDLA_DATA to the folder that has them")
    return folder


@pytest.fixture(scope="session")
def pocl() -> Any:
    """OpenCL on the processor, which needs no GPU: a `vdla.runtime.opencl.OpenClDevice`."""
    from vdla.errors import DeviceError
    from vdla.runtime.opencl import OpenClDevice

    try:
        return OpenClDevice("portable computing language")
    except DeviceError as error:  # its text names what is missing, and the command for it
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, pytest.TestReport]:
    """Make a skip in CI a failure: there, everything that can be installed is."""
    report: pytest.TestReport = yield
    unexpected = report.skipped and not hasattr(report, "wasxfail")
    exempt = any(item.get_closest_marker(mark) for mark in MAY_SKIP_IN_CI)
    if os.environ.get("CI") and unexpected and not exempt:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"in CI nothing that can be installed may skip: {reason}"
    return report
