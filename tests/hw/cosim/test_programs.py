"""Programs on the RTL: to the cycle the cycle model, to the bit the functional model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.configs import EVERY
from tests.hw.cosim.compare import (
    BACK_PRESSURE,
    expect,
    machine_of,
    same_to_the_bit,
    same_to_the_cycle,
)
from tests.pinned import PINNED
from tests.programs import PROGRAMS
from tests.random_programs import random_case
from vdla.config import TINY

pytestmark = pytest.mark.rtl

RANDOM = {"tiny": 60, "pynq-z1": 60, "1x8x8": 45, "2x16x16": 45, "1x16x32": 45, "halved": 45}
"""Random programs by configuration: the smallest, the default, four of the matrix."""

LARGE = ("2x16x16", "1x16x32")
"""Their builds take minutes; `test_variants` has small cores of such shapes."""

EACH = [(config, program) for config in RANDOM for program in PROGRAMS]
DRAWN = [(config, seed) for config, count in RANDOM.items() for seed in range(count)]


def marked(cases: list[tuple[str, Any]]) -> list[Any]:
    """Mark what needs a large build as slow."""
    slow = {True: [pytest.mark.slow], False: []}
    return [pytest.param(*case, marks=slow[case[0] in LARGE]) for case in cases]


def test_there_are_enough_random_programs() -> None:
    assert len(DRAWN) >= 300
    chosen = [EVERY[name] for name in RANDOM]
    assert any(config.block_in != config.block_out for config in chosen)
    assert any(config.batch == 2 for config in chosen)


@pytest.mark.parametrize(("config", "program"), marked(EACH))
def test_program(config: str, program: str) -> None:
    expected = expect(PROGRAMS[program](EVERY[config]))
    machine = machine_of(EVERY[config])
    same_to_the_cycle(machine, expected)
    for seed in BACK_PRESSURE:
        same_to_the_bit(machine, expected, seed)


@pytest.mark.parametrize("name", PINNED)
def test_pinned_meaning(name: str) -> None:
    expected = expect(PINNED[name])
    same_to_the_cycle(machine_of(TINY), expected)
    same_to_the_bit(machine_of(TINY), expected, BACK_PRESSURE[0])


@pytest.mark.parametrize(("config", "seed"), marked(DRAWN))
def test_random_program(config: str, seed: int) -> None:
    expected = expect(random_case(EVERY[config], seed))
    machine = machine_of(EVERY[config])
    same_to_the_cycle(machine, expected)
    for stalls in BACK_PRESSURE:
        same_to_the_bit(machine, expected, stalls)
