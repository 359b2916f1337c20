"""The gateware's tools, without which the RTL cannot be built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vdla.errors import DeviceError
from vdla.runtime.rtl.toolchain import find_toolchain


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    """Skip where a tool is missing, and say what installs it."""
    pytest.importorskip(
        "amaranth", reason="the RTL needs Amaranth; install it with: pip install 'vdla[hw]'"
    )
    try:
        find_toolchain()
    except DeviceError as error:
        pytest.skip(str(error))


def pytest_sessionfinish() -> None:
    """Leave the counts of `tests.hw.cosim.coverage` where the environment says."""
    if os.environ.get("VDLA_COVERAGE"):
        from tests.hw.cosim import coverage

        coverage.write(Path(os.environ["VDLA_COVERAGE"]))
