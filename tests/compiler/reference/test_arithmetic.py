"""Fixed-point arithmetic against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.reference.arithmetic import (
    divide_by_power_of_two,
    divide_half_away,
    doubling_high_multiply,
    fixed_point,
    rescale,
    round_half_away,
)

MIN, MAX = -(2**31), 2**31 - 1


@pytest.mark.parametrize(
    ("a", "b", "high"),
    [
        (MIN, MIN, MAX),  # 2**31 does not fit
        (MIN, MAX, -MAX),
        (MAX, MAX, MAX - 1),  # 2**31 - 2 + 2**-31
        (1, 1 << 30, 1),  # 0.5 goes up
        (-1, 1 << 30, 0),  # -0.5 goes up too
        (-3, 1 << 30, -1),  # -1.5 goes up
        (3, 1 << 30, 2),
        (-1, (1 << 30) + 1, -1),  # just past -0.5
        (0, MIN, 0),
    ],
)
def test_doubling_high_multiply(a, b, high):
    assert doubling_high_multiply(a, b) == high


@pytest.mark.parametrize(
    ("x", "exponent", "quotient"),
    [
        (5, 1, 3),
        (-5, 1, -3),  # -2.5 goes away from zero
        (-6, 2, -2),  # -1.5
        (6, 2, 2),
        (-5, 2, -1),  # -1.25
        (-7, 2, -2),  # -1.75
        (7, 0, 7),
        (-7, 0, -7),
        (MIN, 31, -1),
        (MAX, 31, 1),
        (1 << 30, 31, 1),  # 0.5
        (-(1 << 30), 31, -1),
    ],
)
def test_divide_by_power_of_two(x, exponent, quotient):
    assert divide_by_power_of_two(x, exponent) == quotient


def test_divide_half_away_covers_ties_of_both_signs():
    assert divide_half_away([-5, -4, -3, 3, 4, 5, 0], 2).tolist() == [-3, -2, -2, 2, 2, 3, 0]
    assert divide_half_away([-4, -5, 4, 5], 3).tolist() == [-1, -2, 1, 2]


def test_round_half_away():
    assert round_half_away(np.array([-2.5, -0.5, -0.4, 0.5, 1.5, 2.4])).tolist() == [
        -3,
        -1,
        0,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("real", "m", "shift"),
    [
        (0.5, 1 << 30, 0),
        (1.0, 1 << 30, 1),
        (0.375, 3 << 29, -1),
        (1 - 2.0**-40, 1 << 30, 1),  # rounds up to a whole power of two
        (2.0**-32, 1 << 30, -31),
        (2.0**-33, 0, 0),
        (0.0, 0, 0),
    ],
)
def test_fixed_point(real, m, shift):
    assert tuple(int(v[0]) for v in fixed_point(real)) == (m, shift)


def test_double_and_single_rounding_differ_where_they_should():
    # 3 * 0.25 = 0.75 -> 1, 1 / 2 = 0.5 -> 1; once: 0.375 -> 0.
    x = np.array([3, -3])
    assert rescale(x, 1 << 29, -1, "double").tolist() == [1, -1]
    assert rescale(x, 1 << 29, -1, "single").tolist() == [0, 0]


def test_single_rounding_sends_ties_up():
    assert rescale(np.array([1, -1, -3]), 1 << 30, 0, "single").tolist() == [1, 0, -1]


def test_a_multiplier_above_one_shifts_left_first():
    assert rescale(np.array([5, -5]), 3 << 29, 2, "double").tolist() == [15, -15]
    assert rescale(np.array([5, -5]), 3 << 29, 2, "single").tolist() == [15, -15]
