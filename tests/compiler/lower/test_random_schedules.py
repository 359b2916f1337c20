"""Whatever the schedule, the values are those of the expression."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.lower.expressions import EXPRESSIONS
from tests.compiler.lower.random_schedules import random_schedule
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.verify import verify
from vdla.compiler.lower.nest import build_nests
from vdla.compiler.lower.vthread import interleave_threads

SCHEDULES = 25


def check(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    expression = EXPRESSIONS[name](rng)
    schedule = random_schedule(rng, expression)
    nest = build_nests(schedule)
    verify(nest.body, "nests")
    threads = interleave_threads(nest.body)
    verify(threads, "threads", threads=False)
    for body in (nest.body, threads):
        results = interpret(body, nest.arguments, expression.inputs)
        for tensor, expected in zip(expression.outputs, expression.expected, strict=True):
            np.testing.assert_array_equal(results[tensor], expected)


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_random_schedule(name: str, seed: int) -> None:
    check(name, seed)
