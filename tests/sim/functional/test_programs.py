"""VTA's unit-test programs on the functional model."""

from __future__ import annotations

import numpy as np
import pytest

from tests.configs import MATRIX
from tests.programs import PROGRAMS
from vdla.config import Config
from vdla.sim import functional


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, config: Config) -> None:
    case = PROGRAMS[name](config)
    dram = case.fresh()
    functional.run(case.program, dram)
    case.check(dram)


def test_program_on_images_at_once() -> None:
    case = PROGRAMS["gemm_blocks2"](MATRIX[0])
    images = np.stack([case.dram] * 3)
    first = case.program.config.inp_elem_bytes
    images[1, : 4 * first] ^= 3  # other inputs for the second image alone
    functional.run(case.program, images)
    case.check(images[0])
    case.check(images[2])
    alone = case.fresh()
    alone[: 4 * first] ^= 3
    functional.run(case.program, alone)
    np.testing.assert_array_equal(images[1], alone)
    assert not np.array_equal(images[1], images[0])
