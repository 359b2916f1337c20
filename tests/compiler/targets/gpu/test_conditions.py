"""Conditions on where a thread stands: the same as those they come from, at every place."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from vdla.compiler.ir.evaluate import Evaluator
from vdla.compiler.ir.linear import simplify
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.targets.gpu.conditions import (
    below,
    bounds,
    facts_against,
    facts_of,
    needed,
    settle,
)
from vdla.compiler.targets.gpu.counting import never_negative_counted
from vdla.compiler.te import Expr, Var, all_of, minimum, select
from vdla.compiler.te.expr import Const, Pick

B, STEP, T = Var("b"), Var("i"), Var("t")
LOOPS = ((B, Const(3)), (STEP, Const(10)), (T, Const(12)))
PLACES = list(product(*(range(extent.value) for _, extent in LOOPS)))


def values(expr: Expr) -> list[int]:
    evaluator = Evaluator()
    slots = [evaluator.slot(var) for var, _ in LOOPS]
    function = evaluator.compile(expr)
    found = []
    for place in PLACES:
        for slot, value in zip(slots, place, strict=True):
            evaluator.env[slot] = value
        found.append(int(function(evaluator.env)))
    return found


@pytest.mark.parametrize(
    ("index", "extent", "count"),
    [
        (T, (minimum(32, 65 - B * 32) + 3) // 4, 2),
        (T, minimum(12, 117 - STEP * 12), 2),
        (STEP, (minimum(60, 101 - T * 9) + 4) // 5, 2),
        (T, 2 - (B + 1) // 2, 1),
    ],
)
def test_below_an_extent(index: Expr, extent: Expr, count: int) -> None:
    conditions = below(index, extent)
    assert len(conditions) == count
    assert not any(word in expr_text(c) for c in conditions for word in ("min", "//"))
    assert values(all_of(*conditions)) == values(index.lt(extent))
    assert values(all_of(*(needed(conditions, LOOPS) or conditions))) == values(index.lt(extent))


@pytest.mark.parametrize(
    "index",
    [
        (B * 12 + T) // 6,
        (B * 24 + STEP * 0 + T) % 24,
        (B * 24 + T) // 48,
        (STEP * 24 + B * 12 + T) % 72,
        (STEP * 24 + T + 36) // 72,
        (B * 7 + T) // 14,  # t reaches past 7
    ],
)
def test_what_is_less_than_a_step_leaves_quotients(index: Expr) -> None:
    assert values(settle(simplify(index), LOOPS, ())) == values(index)


def test_a_quotient_of_whole_steps_is_of_those_alone() -> None:
    assert settle((STEP * 12 + T) // 24, LOOPS, ()) == STEP // 2
    assert simplify(settle((STEP * 12 + T) % 24, LOOPS, ())) == simplify((STEP % 2) * 12 + T)


def test_a_tested_condition_decides_others_with_steps_between() -> None:
    # 4 * i <= 30 means 4 * i <= 28, so that 4 * i + 3 <= 31.
    tested, wider = (STEP * 4).le(30), (STEP * 4 + 3).le(31)
    assert needed([wider], LOOPS, [tested]) == ()
    assert needed([(STEP * 4 + 4).le(31)], LOOPS, [tested]) != ()


@pytest.mark.parametrize(
    "condition", [T.lt(5), T.le(4), (STEP * 12 + T).lt(B * 40), ((STEP * 12 + T) // 7).lt(9)]
)
def test_facts_of_what_does_not_hold(condition: Expr) -> None:
    facts = [values(fact) for fact in facts_against(condition)]
    assert facts
    for fails, *those in zip(values(condition), *facts, strict=True):
        assert all(fact >= 0 for fact in those) == (not fails)


def test_what_does_not_hold_says_nothing_of_one_of_two() -> None:
    assert facts_against(all_of(T.lt(5), B.lt(2))) == ()
    assert facts_against(T.eq(5)) == ()


def test_what_follows_from_others_is_not_tested() -> None:
    inside = (STEP * 12).lt(117), (STEP * 12 + T).lt(117), T.lt(12)
    assert [expr_text(c) for c in needed(inside, LOOPS)] == ["i * 12 + t < 117"]
    equal = (T.lt(5), T.le(4))
    assert len(needed(equal, LOOPS)) == 1


@pytest.mark.parametrize(
    "condition",
    [
        (STEP * 12 + T).lt(117),
        (STEP * 5 + T // 4).le(20),
        (T // 4).eq(2),
        all_of((B * 3 + STEP // 4).lt(4), Const(2).le(T)),
    ],
)
@pytest.mark.parametrize(
    "expr", [STEP * 12 + T, (STEP * 12 + T) // 13, (STEP * 12 + T) // 13 % 9, T // 4 * 3]
)
def test_bounds_under_facts_hold(condition: Expr, expr: Expr) -> None:
    facts = facts_of(condition)
    low, high = bounds(simplify(expr), LOOPS, facts)
    under = [v for v, holds in zip(values(expr), values(condition), strict=True) if holds]
    assert under
    assert low <= min(under)
    assert max(under) <= high
    for fact in facts:
        assert all(v >= 0 for v, h in zip(values(fact), values(condition), strict=True) if h)
    settled = values(settle(expr, LOOPS, facts))
    assert [v for v, h in zip(settled, values(condition), strict=True) if h] == under


def test_a_fact_settles_a_remainder() -> None:
    element = STEP * 12 + T
    facts = facts_of((element * 5).lt(585))
    assert expr_text(settle(element // 13 % 9, LOOPS, facts)) == "(i * 12 + t) // 13"
    assert settle(element // 117, LOOPS, facts) == Const(0)


def test_a_condition_that_is_decided_is_not_tested() -> None:
    true, false = (Const(value, "bool") for value in (1, 0))
    inside = T.lt(5)
    assert settle(all_of(true, inside, T.lt(12)), LOOPS, ()) == inside
    assert settle(all_of(true, T.lt(12)), LOOPS, ()) == true
    assert settle(select(all_of(inside, false), T, B), LOOPS, ()) == B
    assert settle(select(all_of(true, T.lt(12)), T, B), LOOPS, ()) == T


@pytest.mark.parametrize("seed", range(8))
def test_counting_finds_the_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q, r = (int(v) for v in rng.integers(-9, 10, 3))
    c = int(rng.integers(2, 8))
    sums = B * p + STEP * q + (STEP * 3 + T) // c * r + T % c
    fact = 40 - STEP * 3 - T
    both = zip(values(sums), values(fact), strict=True)
    least = min(v for v, holds in both if holds >= 0)
    assert never_negative_counted(simplify(sums - least), LOOPS, (fact,))
    assert not never_negative_counted(simplify(sums - least - 1), LOOPS, (fact,))


def test_what_is_too_much_to_count_is_unknown() -> None:
    many = [(Var(f"v{k}"), Const(1000)) for k in range(3)]
    inside = Const(2999) - many[0][0] - many[1][0] - many[2][0]
    assert never_negative_counted(inside, many, ())  # each at its worst end
    assert not never_negative_counted(inside, many, (inside,))


def test_what_is_picked_is_tried() -> None:
    picked = Pick((3, 0, 7, 2, 2, 9, 1, 1, 4, 4), STEP)
    assert never_negative_counted(9 - picked, LOOPS, ())
    assert not never_negative_counted(8 - picked, LOOPS, ())
    assert never_negative_counted(8 - picked, LOOPS, facts_of(STEP.lt(5)))
