"""Whatever tile is chosen, grouped and listed products come out the same, without a race."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.ops import nodes
from tests.compiler.ops.cases import CASES
from tests.configs import MATRIX
from vdla.compiler.ops import template
from vdla.compiler.ops.conv2d import Conv2d, ConvTile
from vdla.compiler.ops.tiling import candidates
from vdla.config import Config
from vdla.sim import functional
from vdla.sim.dependence import check

KINDS = ("apart", "beyond", "depthwise", "grouped")
NAMES = [name for name in CASES if any(kind in name for kind in KINDS)]


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
def test_any_tile(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(len(config.name))

    def drawn(conv: Conv2d, config: Config, *, vthreads: int, **_: object) -> tuple[ConvTile, int]:
        found = list(candidates(conv, config, vthreads))
        return found[rng.integers(len(found))], 1

    monkeypatch.setattr(template, "choose_tile", drawn)
    for name in rng.choice(NAMES, 6):
        for vthreads in (1, 2):
            built = nodes.compile_node(CASES[name](), config, vthreads=vthreads)
            assert check(built.operator.program, built.memory) == []
            memory = built.memory.copy()
            functional.run(built.operator.program, memory)
            np.testing.assert_array_equal(built.output(memory), built.expected, err_msg=name)
