"""Whole tiles rounded up to multiples: more iterations, and 0 past the end."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.stmt import For, walk_stmts
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.te import Schedule, Tensor, compute, create_schedule, placeholder


def _made(*multiples: int) -> tuple[Schedule, Tensor, Tensor, Tensor]:
    a = placeholder((2, 7, 5), "float32", "a")
    b = compute(a.shape, lambda n, i, j: a[n, i, j] * 2.0, "b")
    c = compute(a.shape, lambda n, i, j: b[n, i, j] + 1.0, "c")
    s = create_schedule(c)
    s[b].compute_at(s[c], s[c].axis[0])
    s[b].whole_multiples(*multiples)
    return s, a, b, c


@pytest.mark.parametrize(
    ("multiples", "size"), [((), 7 * 5), ((4,), 7 * 8), ((4, 2), 8 * 6), ((7, 5), 7 * 5)]
)
def test_the_last_dimensions_are_rounded_up(multiples: tuple[int, ...], size: int) -> None:
    s, a, b, c = _made(*multiples)
    body, arguments = lower(s)
    extents = [part.extent for part in walk_stmts(body) if isinstance(part, For)]
    assert np.prod([extent.value for extent in extents[1:3]]) == size
    values = np.arange(70, dtype=np.float32).reshape(a.shape)
    found = interpret(body, arguments, {a: values})[c]
    np.testing.assert_array_equal(found, values * 2 + 1)
