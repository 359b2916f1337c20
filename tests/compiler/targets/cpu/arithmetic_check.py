"""Checks a library of `tests.compiler.targets.cpu.arithmetic`; runs where numpy alone is."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["COUNT", "check"]

COUNT = 1000


def _integers(dtype: str, seed: int) -> np.ndarray:
    """Return numbers of all magnitudes, the ends of the range, and ones near powers of two."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    bits = info.bits - (info.kind == "i")
    numbers = rng.integers(info.min, info.max, COUNT, dtype, endpoint=True)
    numbers >>= rng.integers(0, bits, COUNT).astype(dtype)
    near = [(1 << k) + d for k in range(bits) for d in (-1, 0, 1)]
    ends = [*(n for n in near if n <= info.max), info.max, info.min]
    at = rng.permutation(COUNT)[: len(ends)]
    numbers[at] = np.array(ends, dtype)
    return numbers


def _floats(dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=COUNT) * 10.0 ** rng.integers(-3, 12, COUNT)
    numbers[:400] = np.round(numbers[:400] * 2) / 2  # halves, which round to even
    special = [0.0, -0.0, 0.5, -0.5, 2.0**23, -(2.0**23), 2.0**52, np.inf, -np.inf, np.nan, -1e300]
    with np.errstate(over="ignore"):
        numbers = numbers.astype(dtype)
        numbers[-len(special) :] = np.array(special).astype(dtype)
    return numbers


def _same(name: str, got: np.ndarray, wanted: np.ndarray) -> None:
    equal = (got == wanted) | ((got != got) & (wanted != wanted))
    if got.dtype.kind == "f":
        equal &= (np.signbit(got) == np.signbit(wanted)) | np.isnan(wanted)
    assert equal.all(), (name, got[~equal][:5], wanted[~equal][:5])


def check(library: Any) -> int:
    """Compare every function of the library with numpy; return how many there were."""
    for seed, name in enumerate(library.info.functions):
        operation, dtype, *rest = name.split("_")
        function = library.function(name)
        if operation in ("div", "rem"):
            a, b = _integers(dtype, seed), _integers(dtype, seed + 1000)
            b[b == 0] = 3
            if np.iinfo(dtype).kind == "i":
                b[(a == np.iinfo(dtype).min) & (b == -1)] = 1
            out = np.zeros(COUNT, dtype)
            function(a, b, out)
            rest_of = np.fmod(a, b)
            # Towards zero: a less its rest is a multiple of b.
            wanted = (a - rest_of) // b if operation == "div" else rest_of
        elif operation == "convert":
            (target,) = rest
            if dtype.startswith("float"):
                a = _floats(dtype, seed)
                info = np.iinfo(target)
                fits = (a > (-(2.0**63) if info.min else -1.0)) & (a < 2.0**63)
                a[~fits] = 7.75
            else:
                a = _integers(dtype, seed)
            out = np.zeros(COUNT, target)
            function(a, out)
            wanted = a.astype(target)
        else:
            a = _floats(dtype, seed)
            out = np.zeros(COUNT, dtype)
            function(a, out)
            wanted = getattr(np, operation)(a)
        _same(name, out, wanted)
    return len(library.info.functions)
