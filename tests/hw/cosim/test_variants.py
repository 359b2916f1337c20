"""The RTL with other queues, buses and memories, on small cores that build fast."""

from __future__ import annotations

import pytest

from tests.configs import VARIANTS
from tests.hw.cosim.compare import (
    BACK_PRESSURE,
    expect,
    machine_of,
    same_to_the_bit,
    same_to_the_cycle,
)
from tests.programs import PROGRAMS
from tests.random_programs import random_case
from vdla.config import TINY, Config

pytestmark = pytest.mark.rtl

MORE: dict[str, Config] = {
    "single_beats": TINY.replace(axi_burst_beats=1, axi_outstanding=1),
    "256_bit": TINY.replace(
        axi_version=4, axi_data_bits=256, axi_burst_beats=16, axi_outstanding=16
    ),
    "batch_4_on_32_bits": TINY.replace(
        batch=4, axi_data_bits=32, axi_burst_beats=16, inp_bytes=8 << 10, acc_bytes=32 << 10
    ),
}
"""Beyond what a quick run can build."""

EVERY = VARIANTS | MORE
NAMES = [*VARIANTS, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)]
CHOSEN = ("load_store", "padded_load(2, 1, 2, 1)", "gemm_blocks2", "add_tensor", "dense")
SEEDS = range(20)


@pytest.mark.parametrize("name", NAMES)
def test_variant_runs_programs(name: str) -> None:
    machine = machine_of(EVERY[name])
    for program in CHOSEN:
        expected = expect(PROGRAMS[program](EVERY[name]))
        same_to_the_cycle(machine, expected)
        for stalls in BACK_PRESSURE:
            same_to_the_bit(machine, expected, stalls)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_variant_runs_random_programs(name: str, seed: int) -> None:
    expected = expect(random_case(EVERY[name], seed))
    machine = machine_of(EVERY[name])
    same_to_the_cycle(machine, expected)
    for stalls in BACK_PRESSURE:
        same_to_the_bit(machine, expected, stalls)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("latency", [1, 7, 100])
def test_memory_of_another_latency(latency: int, seed: int) -> None:
    """The gateware does not know the latency: one build serves all."""
    config = TINY.replace(dram_latency_cycles=latency)
    same_to_the_cycle(machine_of(TINY), expect(random_case(config, seed)))
