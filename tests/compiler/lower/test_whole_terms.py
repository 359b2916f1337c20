"""Sums in steps of constant size, which go on past their end."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.printer import stmt_text
from vdla.compiler.lower.narrow import narrow
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.te import (
    Expr,
    Schedule,
    Tensor,
    compute,
    create_schedule,
    max_over,
    placeholder,
    reduce_axis,
    sum_over,
)
from vdla.errors import LoweringError

Body = Callable[[Expr, Expr], Expr]


def stepped(
    over: Callable[[Expr, Any], Expr], term: Body, *, cached: tuple[str, ...] = ("a", "b")
) -> tuple[Schedule, tuple[Tensor, Tensor, Tensor]]:
    """``out = over(term(a[k], b[k]), k)``, k below 10 in steps of 4."""
    a, b = (placeholder((10,), "float32", name) for name in ("a", "b"))
    k = reduce_axis(10, "k")
    out = compute((1,), lambda _: over(term(a[k], b[k]), k), "out")
    s = create_schedule(out)
    total = s.cache_write(out, "global")
    step, _ = s[total].split(k, factor=4)
    s[total].compute_at(s[out], s[out].axis[0])
    s[total].whole_tiles(terms=True)
    for tensor in (a, b):
        if tensor.name in cached:
            copy = s[s.cache_read(tensor, "global", [total])]
            copy.compute_at(s[total], step)
            copy.whole_tiles()
    return s, (a, b, out)


def product(a: Expr, b: Expr) -> Expr:
    return a * b


def test_the_last_step_adds_what_is_0() -> None:
    s, (a, b, out) = stepped(sum_over, product)
    body, arguments = lower(s)
    assert "for k.i in 4" in stmt_text(narrow(body))
    assert "min(" not in stmt_text(narrow(body))
    rng = np.random.default_rng(0)
    values = {t: rng.standard_normal(10).astype(np.float32) for t in (a, b)}
    found = interpret(body, arguments, values)[out]
    np.testing.assert_allclose(found[0], values[a] @ values[b], rtol=1e-5)


def test_nothing_need_be_0_where_steps_divide() -> None:
    a = placeholder((8,), "float32", "a")
    k = reduce_axis(8, "k")
    out = compute((1,), lambda _: max_over(a[k], k), "out")
    s = create_schedule(out)
    most = s.cache_write(out, "global")
    s[most].split(k, factor=4)
    s[most].compute_at(s[out], s[out].axis[0])
    s[most].whole_tiles(terms=True)
    body, arguments = lower(s)
    given = np.arange(8, dtype=np.float32) - 9
    assert interpret(body, arguments, {a: given})[out][0] == -2


@pytest.mark.parametrize(
    ("over", "term", "cached"),
    [
        (max_over, product, ("a", "b")),
        (sum_over, lambda a, b: a * b + 1, ("a", "b")),
        (sum_over, product, ("a",)),  # 0 times what lies past the other's end
        (sum_over, product, ()),
    ],
)
def test_what_may_not_be_0_is_refused(
    over: Callable[[Expr, Any], Expr], term: Body, cached: tuple[str, ...]
) -> None:
    s, _ = stepped(over, term, cached=cached)
    text = (
        "A reduction in whole tiles must add 0 past its end, and out.global, over k, is not known "
        "to: sum up products of tensors that are read at k itself, in whole tiles each."
    )
    with pytest.raises(LoweringError, match=re.escape(text)):
        lower(s)
