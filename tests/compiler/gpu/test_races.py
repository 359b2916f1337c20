"""Kernels under Oclgrind: no two threads come together, and no barrier is there for nothing."""

from __future__ import annotations

import re
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.gpu.byte_cases import CASES as BYTES
from tests.compiler.gpu.cases import CASES as OPERATORS
from tests.compiler.gpu.reduction_cases import CASES as REDUCTIONS
from tests.compiler.targets.gpu.broken import barriers_of, unguarded, without
from tests.compiler.targets.gpu.race_checker import first_race, watched
from tests.compiler.targets.gpu.schedules import CASES as BY_HAND
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.targets.gpu import Kernel, build_kernel

Array = np.ndarray
SCHEDULES = {**BY_HAND, **REDUCTIONS}
WATCHED = [name for name in OPERATORS if "large" not in name]
"""Those that an interpreter runs in seconds."""


@cache
def _made(name: str) -> tuple[Kernel, list[Array], Array]:
    """Return a kernel, what it is given, and what it should write."""
    if name in SCHEDULES:
        (schedule, tensors), expected = SCHEDULES[name]
        rng = np.random.default_rng(3)
        arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in tensors[:-1]]
        return build_kernel("k", schedule, tensors), arrays, expected(*arrays)
    case = (OPERATORS | BYTES)[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    return made.kernel, [*case.inputs, *made.constants.values()], case.exact


@pytest.mark.parametrize("name", [*SCHEDULES, *WATCHED, *BYTES])
def test_threads_never_come_together(name: str, tmp_path: Path) -> None:
    kernel, arrays, expected = _made(name)
    report = watched(kernel, *arrays, folder=tmp_path)
    assert report.text == ""
    np.testing.assert_allclose(report.output, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", [*SCHEDULES, *WATCHED, *BYTES])
def test_every_barrier_keeps_them_apart(name: str, tmp_path: Path) -> None:
    kernel, arrays, _ = _made(name)
    barriers = barriers_of(kernel)
    assert barriers
    for barrier in barriers:
        found = first_race(without(kernel, barrier), *arrays, folder=tmp_path)
        assert found == (None if prod(kernel.block) == 1 else "local")


@pytest.mark.parametrize("name", ["transposed", "moving_maximum", "dense 7x13x5", "conv 3x3"])
def test_every_guard_keeps_them_inside(name: str, tmp_path: Path) -> None:
    kernel, arrays, _ = _made(name)
    text = watched(unguarded(kernel), *arrays, folder=tmp_path).text
    assert re.match(r"Invalid (read|write) of size (4|16) at (local|global) memory address", text)
