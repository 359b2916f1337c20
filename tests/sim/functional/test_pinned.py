"""Each pinned meaning on the functional model, on the scalar reading and in the race check."""

from __future__ import annotations

import pytest

from tests.naive import run_naive
from tests.pinned import PINNED
from vdla.sim import functional
from vdla.sim.dependence import check


@pytest.mark.parametrize("name", PINNED)
def test_pinned_meaning(name: str) -> None:
    case = PINNED[name]
    dram = case.fresh()
    functional.run(case.program, dram)
    case.check(dram)
    case.check(run_naive(case.program, case.dram))
    assert check(case.program, case.dram) == []
