"""Instructions of a small convolution, with one and with two virtual threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.targets.operators import Window, convolve, run
from vdla.compiler.targets.vdla.build import build
from vdla.config import TINY
from vdla.isa.asm import disassemble

WINDOW = Window(inputs=2, outputs=2, height=6, width=5, kernel=(3, 3), padding=(1, 1, 1, 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_convolution(threads: int, golden: Callable[[str, str], None]) -> None:
    case = convolve(WINDOW, TINY, threads, np.random.default_rng(0), (1, 3, 1))
    np.testing.assert_array_equal(run(case, TINY), case.expected)
    program = build(case.schedule, [*case.inputs, case.result], TINY).program
    golden(disassemble(program), f"convolution_{threads}.txt")
