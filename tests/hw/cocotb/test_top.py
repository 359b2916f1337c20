"""The top behind cocotbext-axi's memory and master."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")
pytest.importorskip("cocotb", reason="needs cocotb; install it with: pip install 'vdla[verify]'")
pytest.importorskip(
    "cocotbext.axi", reason="needs cocotbext-axi; install it with: pip install 'vdla[verify]'"
)

from tests.hw.cocotb.build import built, run_bench
from tests.hw.cocotb.units import Axi4Top
from vdla.config import TINY

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))]
)
def test_top(seed: int, tmp_path: Path) -> None:
    run_bench(built(Axi4Top(TINY)), "top", tmp_path, seed)
