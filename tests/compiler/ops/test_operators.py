"""Every operator equals the reference interpreter on every configuration of the matrix."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.ops.cases import CASES, RECHECKED
from tests.compiler.ops.nodes import compare, compile_node
from tests.configs import MATRIX, SMALL
from vdla.config import Config
from vdla.sim import cycle
from vdla.sim.dependence import check

every_config = pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
small_configs = pytest.mark.parametrize("config", SMALL, ids=lambda config: config.name)


@every_config
@pytest.mark.parametrize("case", CASES)
def test_two_threads(case: str, config: Config) -> None:
    compare(CASES[case](), config)


@small_configs
@pytest.mark.parametrize("case", CASES)
def test_one_thread(case: str, config: Config) -> None:
    compare(CASES[case](), config, vthreads=1)


@pytest.mark.slow
@every_config
def test_one_thread_everywhere(config: Config) -> None:
    for make in CASES.values():
        compare(make(), config, vthreads=1)


@small_configs
@pytest.mark.parametrize("case", RECHECKED)
def test_tokens_order_everything_on_every_machine(case: str, config: Config) -> None:
    for vthreads in (1, 2):
        built = compile_node(CASES[case](), config, vthreads=vthreads)
        assert check(built.operator.program, built.memory) == []
        memory = built.memory.copy()
        cycle.run(built.operator.program, memory)
        np.testing.assert_array_equal(built.output(memory), built.expected)
