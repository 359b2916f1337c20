"""The back end on operators in no list, over the configuration matrix."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.targets.operators import OPERATORS, run
from tests.configs import MATRIX
from vdla.config import Config


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_operator(name: str, config: Config, threads: int, seed: int) -> None:
    case = OPERATORS[name](np.random.default_rng(seed), config, threads)
    np.testing.assert_array_equal(run(case, config), case.expected)
