"""Each unit against its definition, in a simulation of the generated Verilog."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")
pytest.importorskip("cocotb", reason="needs cocotb; install it with: pip install 'vdla[verify]'")
pytest.importorskip(
    "cocotbext.axi", reason="needs cocotbext-axi; install it with: pip install 'vdla[verify]'"
)

from tests.hw.cocotb.build import built, run_bench
from tests.hw.cocotb.units import Units

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize(
    "bench",
    ["generator", "store", "load", "queues", "sequencer", "lane", "product", "control"],
)
def test_unit(bench: str, tmp_path: Path) -> None:
    run_bench(built(Units()), bench, tmp_path)
