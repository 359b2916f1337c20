"""Conversions on every level of this machine's, with instructions for them and without."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.compiler.cpu.running import Defined, compiled, computed
from vdla.compiler.cpu.schedule import default_schedule
from vdla.compiler.targets.cpu.target import LEVELS, supports
from vdla.compiler.te import compute, placeholder
from vdla.runtime.native import Library

HALVES = np.arange(0x7C01, dtype=np.uint16).view(np.float16)
MINE = [level for level, target in LEVELS.items() if supports(target)]


def around_ties() -> np.ndarray:
    """Every half, what lies between two, and the numbers just beside that."""
    exact = HALVES.astype(np.float64)
    ties = ((exact[1:] + exact[:-1]) / 2)[:-1]
    rest = np.array([np.nan, 1e300, 65519.99999999, 65520, 5e-324, 1e-30])
    values = np.concatenate([exact, ties, np.nextafter(ties, 0), np.nextafter(ties, 1e9), rest])
    return np.concatenate([values, -values])


@pytest.mark.parametrize("level", MINE)
def test_half_floats_are_numpys(level: str) -> None:
    target = LEVELS[level]
    with np.errstate(all="ignore"):
        given = [around_ties(), around_ties().astype(np.float32)]
        halves = np.concatenate([HALVES, -HALVES, np.float16([np.nan])])
    several, wanted = [], []
    for values, dtype in (
        *((x, "float16") for x in given),
        (halves, "float32"),
        (halves, "float64"),
    ):
        x = placeholder(values.shape, str(values.dtype), "x")
        y = compute(values.shape, lambda i, x=x, dtype=dtype: x[i].astype(dtype), "y")
        several.append(Defined(default_schedule(y, target), y, {x: values}))
        with np.errstate(all="ignore"):
            wanted.append(values.astype(dtype))
    with Library(compiled(several, target)) as library:
        for found, want in zip(computed(library, several, "end"), wanted, strict=True):
            np.testing.assert_array_equal(found, want)
            assert (np.signbit(found) == np.signbit(want))[~np.isnan(want)].all()


EDGES = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1.5, -1.0, -0.5, 0.0, 0.5)]
NUMBERS = [0.0, -0.0, 0.99, 1.5, 77.7, math.nan, math.inf, 1e30, *EDGES]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def nearest(x: float, dtype: str) -> int:
    """Towards zero, and no further than the dtype reaches."""
    limits = np.iinfo(dtype)
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return limits.max if x > 0 else limits.min
    return min(max(math.trunc(x), limits.min), limits.max)


@pytest.mark.parametrize("level", MINE)
def test_floats_become_the_nearest_integers(level: str) -> None:
    target, several, wanted = LEVELS[level], [], []
    for source in ("float16", "float32", "float64"):
        with np.errstate(over="ignore"):
            values = np.array([*NUMBERS, *(-x for x in NUMBERS)]).astype(source)
        x = placeholder(values.shape, source, "x")
        for dtype in INTEGERS:
            y = compute(values.shape, lambda i, x=x, dtype=dtype: x[i].astype(dtype), "y")
            several.append(Defined(default_schedule(y, target), y, {x: values}))
            wanted.append([nearest(float(value), dtype) for value in values])
    with Library(compiled(several, target)) as library:
        for found, want in zip(computed(library, several, "end"), wanted, strict=True):
            assert found.tolist() == want
