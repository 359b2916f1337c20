"""Multipliers against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.graph.fixedpoint import (
    add_multipliers,
    quantize_multiplier,
    quantize_multipliers,
)
from vdla.errors import ModelError


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (0.0, (0, 0)),
        (0.5, (1 << 30, 0)),
        (0.75, (3 << 29, 0)),
        (1.0, (1 << 30, 1)),
        (6.0, (3 << 29, 3)),
        (0.1, (1717986918, -3)),  # 0.8 * 2**31 = 1717986918.4
        (0.5 + 2.0**-32, ((1 << 30) + 1, 0)),  # half a step rounds up
        (1 - 2.0**-40, (1 << 30, 1)),  # the fraction rounds to 2**31 and carries
        (2.0**-32, (1 << 30, -31)),  # the last shift there is
        (2.0**-32 - 2.0**-72, (1 << 30, -31)),  # carries back into range
        (2.0**-33, (0, 0)),
    ],
)
def test_quantize_multiplier(real, expected):
    assert quantize_multiplier(real) == expected


@pytest.mark.parametrize("real", [-0.1, 2.0**30, float("inf"), float("nan")])
def test_a_multiplier_out_of_range_is_refused(real):
    with pytest.raises(ModelError, match=r"must lie in \[0, 2\*\*30\), not .* Check the scales"):
        quantize_multiplier(real)


def test_a_vector_of_multipliers():
    m, shift = quantize_multipliers(np.array([0.5, 0.375, 1.0]))
    assert m.dtype == shift.dtype == np.int32
    assert m.tolist() == [1 << 30, 3 << 29, 1 << 30]
    assert shift.tolist() == [0, -1, 1]


def test_add_multipliers():
    # Twice the larger scale is 2: 1/2, 0.5/2, and 2 / (2**20 * 4) = 2**-21.
    lhs, rhs, output = add_multipliers(1.0, 0.5, 4.0)
    assert (lhs, rhs, output) == ((1 << 30, 0), (1 << 30, -1), (1 << 30, -20))
