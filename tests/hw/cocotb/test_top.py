"""The top behind cocotbext-axi's memory and master."""

from __future__ import annotations

from pathlib import Path

import pytest

for tool in ("amaranth", "cocotb", "cocotbext.axi"):
    pytest.importorskip(tool, reason=f"needs {tool}; install it with: pip install 'vdla[hw,verify]'")

from tests.hw.cocotb.build import built, run_bench
from vdla.config import TINY
from vdla.gateware.top import Top

pytestmark = pytest.mark.rtl


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_top(seed: int, tmp_path: Path) -> None:
    run_bench(built(Top(TINY)), "top", tmp_path, seed)
