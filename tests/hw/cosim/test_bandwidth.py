"""A memory slower than the bus: the RTL and the cycle model agree at every pace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.configs import EVERY, VARIANTS
from tests.hw.cosim.compare import (
    expect,
    machine_of,
    same_to_the_bit,
    same_to_the_cycle,
)
from tests.hw.transfers import LOADED, transfers
from tests.programs import PROGRAMS
from tests.random_programs import random_case
from vdla.config import TINY, Config
from vdla.isa import MemoryType

pytestmark = pytest.mark.rtl

RATES = (5.3, 4.0, 7.9, 1.7, 0.3)
"""Bytes a cycle of 8: none but half the bus's is a whole number of cycles a beat."""

LATENCIES = (1, 30, 75)
PACES = [(rate, latency) for rate in RATES for latency in LATENCIES]
CHOSEN = ("load_store", "padded_load(2, 1, 2, 1)", "gemm_blocks2", "dense")


@pytest.mark.parametrize(("rate", "latency"), PACES)
@pytest.mark.parametrize("name", ["tiny", "pynq-z1"])
def test_random_programs_on_a_slower_memory(name: str, rate: float, latency: int) -> None:
    config = slower(EVERY[name], rate / 8, latency)
    for seed in range(2):
        same_to_the_cycle(machine_of(EVERY[name]), expect(random_case(config, seed)))


@pytest.mark.parametrize("name", VARIANTS)
def test_other_buses_on_a_slower_memory(name: str) -> None:
    for share, latency in ((0.6625, 30), (0.21, 7)):
        config = slower(VARIANTS[name], share, latency)
        for seed in range(3):
            same_to_the_cycle(machine_of(VARIANTS[name]), expect(random_case(config, seed)))


@pytest.mark.parametrize("kind", LOADED, ids=lambda kind: kind.name.lower())
def test_blocks_of_every_length_and_alignment(kind: MemoryType) -> None:
    case = transfers(kind)
    for rate in (5.3, 2.9):
        program = replace(case.program, config=TINY.replace(dram_bytes_per_cycle=rate))
        same_to_the_cycle(machine_of(TINY), expect(replace(case, program=program)))


@pytest.mark.parametrize("program", CHOSEN)
def test_programs_on_a_slower_memory_under_back_pressure(program: str) -> None:
    expected = expect(PROGRAMS[program](TINY.replace(dram_bytes_per_cycle=3.1)))
    same_to_the_cycle(machine_of(TINY), expected)
    same_to_the_bit(machine_of(TINY), expected, 1)


def slower(config: Config, share: float, latency: int) -> Config:
    return config.replace(
        dram_bytes_per_cycle=share * config.axi_bytes, dram_latency_cycles=latency
    )
