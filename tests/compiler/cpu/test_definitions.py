"""Every operator's definition against the host's kernels, which share no code with it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.cpu.cases import CASES
from tests.compiler.cpu.running import by_interpreter, expected, outcome
from vdla.compiler.cpu.define import DEFINITIONS
from vdla.compiler.graph import OPS


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


@pytest.mark.parametrize("op", OPS)
def test_loops_of_a_definition(op: str) -> None:
    for case in CASES[op]:
        with np.errstate(all="ignore"):
            want = expected(case.graph, case.values)
        found = outcome(case.graph, case.values, by_interpreter)
        assert (found.dtype, found.shape) == (want.dtype, want.shape), case
        assert_close(found, want, str(case))
