"""Spans of each module: they tile the run, and their sums are the counters."""

from __future__ import annotations

import pytest

from tests.configs import VARIANTS
from tests.random_programs import random_case
from vdla.config import PYNQ_Z1, Config
from vdla.sim import cycle

CONFIGS = [PYNQ_Z1, VARIANTS["shallow_queues"]]


@pytest.mark.parametrize("config", CONFIGS, ids=["default", "shallow_queues"])
@pytest.mark.parametrize("seed", range(4))
def test_spans_tile_the_run_and_sum_to_the_counters(config: Config, seed: int) -> None:
    case = random_case(config, seed, 60)
    result = cycle.time(case.program, case.dram)
    for module, counted in result.counters.items():
        spans = result.spans(module)
        assert spans["begin"][0] == 0
        assert spans["end"][-1] == result.cycles
        assert (spans["begin"][1:] == spans["end"][:-1]).all()
        assert (spans["begin"] < spans["end"]).all()
        assert (spans["cause"][1:] != spans["cause"][:-1]).all()
        cycles = dict.fromkeys(counted, 0)
        for begin, end, cause in spans.tolist():
            cycles[cycle.Cause(cause).name.lower()] += end - begin
        assert cycles == counted
