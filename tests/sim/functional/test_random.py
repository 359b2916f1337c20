"""Random programs on the functional model, against a scalar reading of the manual."""

from __future__ import annotations

import numpy as np
import pytest

from tests.configs import MATRIX
from tests.naive import run_naive
from tests.programs import PROGRAMS
from tests.random_programs import random_case
from vdla.config import Config
from vdla.sim import functional


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
@pytest.mark.parametrize("seed", range(12))
def test_random_program(config: Config, seed: int) -> None:
    case = random_case(config, seed)
    dram = case.fresh()
    functional.run(case.program, dram)
    case.check(dram)


@pytest.mark.parametrize("seed", range(8))
def test_images_and_base(seed: int) -> None:
    """Four images behind an odd base are four separate runs."""
    config, base = MATRIX[1], 52
    case = random_case(config, seed)
    images = np.stack([np.concatenate([np.zeros(base, np.uint8), case.dram])] * 4)
    images[1:, base : base + 16] = np.random.default_rng(seed).integers(0, 256, (3, 16))
    alone = [image[base:].copy() for image in images]
    functional.run(case.program, images, base=base)
    for image, dram in zip(images, alone, strict=True):
        functional.run(case.program, dram)
        np.testing.assert_array_equal(image[base:], dram)
        assert not image[:base].any()


@pytest.mark.parametrize("name", ["gemm_blocks2", "dense", "scale"])
def test_the_scalar_reading_agrees_with_numpy(name: str) -> None:
    case = PROGRAMS[name](MATRIX[1])
    case.check(run_naive(case.program, case.dram))


@pytest.mark.parametrize("seed", range(12))
def test_shallow_queues_change_nothing(seed: int) -> None:
    """Producers stall and go on; a program whose order is possible stays possible."""
    config = MATRIX[1].replace(token_queue_depth=2, command_queue_depth=2)
    case = random_case(config, seed, length=80)
    dram = case.fresh()
    functional.run(case.program, dram)
    case.check(dram)
