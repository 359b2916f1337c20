"""Each unit against its definition, in a simulation of the generated Verilog."""

from __future__ import annotations

from pathlib import Path

import pytest

for tool in ("amaranth", "cocotb", "cocotbext.axi"):
    pytest.importorskip(tool, reason=f"needs {tool}; install it with: pip install 'vdla[hw,verify]'")

from tests.hw.cocotb.build import built, run_bench
from tests.hw.cocotb.units import Units

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize(
    "bench",
    ["generator", "store", "load", "queues", "sequencer", "lane", "product", "control"],
)
def test_unit(bench: str, tmp_path: Path) -> None:
    run_bench(built(Units()), bench, tmp_path)
