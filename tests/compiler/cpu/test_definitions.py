"""Every operator's definition against the host's kernels, which share no code with it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.cpu.cases import CASES, Case
from tests.compiler.cpu.running import compiled, computed, defined, expected, interpreted
from tests.compiler.targets.cpu.guarded import ENDS, in_child
from vdla.compiler.cpu.define import DEFINITIONS
from vdla.compiler.graph import OPS
from vdla.compiler.targets.cpu.target import Target, host_target
from vdla.runtime.native import Library

MOST_STEPS = 2000
"""Of a case that is executed scalar by scalar; machine code runs them all."""
RTOL = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-10}
"""Half floats are rounded once here and after every step there; sums are in another order."""


def assert_close(found: np.ndarray, want: np.ndarray, case: str) -> None:
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(found, want, err_msg=case)
        return
    rtol = RTOL[str(want.dtype)]
    # Sums of many terms may cancel: what is left is compared with their size.
    size = np.abs(want[np.isfinite(want)], dtype=np.float64).max(initial=1e-3)
    np.testing.assert_allclose(found, want, rtol, rtol / 10 * min(size, 100), err_msg=case)


def test_every_operator_has_a_definition() -> None:
    assert set(DEFINITIONS) == set(OPS) == set(CASES)


def truth(case: Case) -> np.ndarray:
    with np.errstate(all="ignore"):
        return expected(case.graph, case.values)


@pytest.mark.parametrize("op", OPS)
def test_loops_of_a_definition(op: str) -> None:
    """Read nothing unwritten, and compute what the kernels do."""
    target = Target.named("x86-64-avx2")
    small = [case for case in CASES[op] if case.steps <= MOST_STEPS]
    assert small
    for case in small:
        want = truth(case)
        found = interpreted(defined(case.graph, case.values, target))
        assert (found.dtype, found.shape) == (want.dtype, want.shape), case
        assert_close(found, want, str(case))


@pytest.mark.parametrize("op", OPS)
def test_machine_code_of_a_definition(op: str) -> None:
    """Reaches nothing beyond its arrays, and computes what the kernels do."""
    several = [defined(case.graph, case.values, host_target()) for case in CASES[op]]
    code = compiled(several, host_target())

    def check() -> None:
        for at in ENDS:
            with Library(code) as library:
                results = computed(library, several, at)
            for case, found in zip(CASES[op], results, strict=True):
                assert_close(found, truth(case), str(case))

    in_child(check)
