"""Expressions: folding, dtypes, ranges, printed text."""

from __future__ import annotations

import random

import pytest

from vdla.compiler.ir.evaluate import Evaluator, exact_bounds
from vdla.compiler.ir.linear import affine, const_bounds, relax, simplify
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.te import Var, compute, maximum, minimum, pick, placeholder, select
from vdla.compiler.te.expr import Binary, Const, Expr
from vdla.compiler.te.ranges import value_range
from vdla.errors import LoweringError

X, Y, Z = Var("x"), Var("y"), Var("z")
EXTENTS = {X: 5, Y: 4, Z: 3}


def random_index(rng: random.Random, depth: int = 4) -> Expr:
    """An index that is never negative, as those of lowering are."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([X, Y, Z, Const(rng.randrange(0, 9))])
    a, b = random_index(rng, depth - 1), random_index(rng, depth - 1)
    kind = rng.choice(["+", "*c", "//", "%", "min", "max", "pick"])
    if kind == "+":
        return a + b
    if kind == "*c":
        return a * rng.randrange(0, 5)
    if kind == "//":
        return a // rng.randrange(1, 6)
    if kind == "%":
        return a % rng.randrange(1, 6)
    if kind == "pick":
        values = [rng.randrange(0, 9) for _ in range(rng.randrange(1, 6))]
        return pick(values, a % len(values))
    return minimum(a, b) if kind == "min" else maximum(a, b)


def values_of(expr: Expr) -> list[int]:
    evaluator = Evaluator()
    slots = [evaluator.slot(v) for v in EXTENTS]
    function = evaluator.compile(expr)
    found = []
    for x in range(5):
        for y in range(4):
            for z in range(3):
                for slot, value in zip(slots, (x, y, z), strict=True):
                    evaluator.env[slot] = value
                found.append(function(evaluator.env))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_index_arithmetic(seed: int) -> None:
    """Simplifying keeps every value, and bounds hold."""
    expr = random_index(random.Random(seed))
    values = values_of(expr)
    assert values_of(simplify(expr)) == values
    difference = simplify(expr - simplify(expr))
    assert difference == Const(0)
    loops = [(var, Const(extent)) for var, extent in EXTENTS.items()]
    low, high = const_bounds(expr, loops)
    assert low <= min(values)
    assert max(values) <= high
    assert exact_bounds(expr, loops) == (min(values), max(values))


def test_a_last_tile_has_exact_bounds() -> None:
    """Three tiles of 4 in 10: the last one ends where the axis does."""
    outer, inner = Var("o"), Var("i")
    loops = [(outer, Const(3)), (inner, minimum(4, 10 - outer * 4))]
    assert const_bounds(outer * 4 + inner, loops) == (0, 9)
    greatest = relax(outer * 4 + inner, inner, loops[1][1])[1]
    assert [exact_bounds(greatest - o, [(outer, Const(o + 1))])[1] for o in (0, 1, 2)] == [3, 6, 7]


def test_quotients_give_up_their_multiples() -> None:
    assert simplify((X * 8 + 3) // 8) == X
    assert simplify((X * 8 + 3) % 8) == Const(3)
    assert simplify((X * 4 + 3) // 8) == simplify(X // 2)
    assert simplify((X * 6 + 5) // 9) == simplify((X * 2 + 1) // 3)
    assert simplify((X * 6 + Y) // 3) == simplify(X * 2 + Y // 3)
    assert expr_text(simplify((X * 6 + Y - 1) % 3)) == "(y + 2) % 3"


def test_affine() -> None:
    found = affine((X * 3 + Y) * Z + 7, [X, Y])
    assert found is not None
    steps, base = found
    assert steps[X] == simplify(Z * 3)
    assert steps[Y] == Z
    assert base == Const(7)
    assert affine(X * X, [X]) is None
    assert affine(X // 2, [X]) is None


def test_an_unknown_range_is_an_error_that_names_it() -> None:
    with pytest.raises(LoweringError, match=r"The range of x \+ y must be known .* no enclosing"):
        const_bounds(X + Y, [(X, Const(4))])


def test_operators_fold_and_keep_dtypes() -> None:
    a = placeholder((4,), "int8", "a")
    assert (a[0] + 0) is not None
    assert (a[X] * 3).dtype == "int8"
    assert (3 * a[X]).dtype == "int8"
    assert (1 - a[X]).dtype == "int8"
    assert a[X].astype("int32").dtype == "int32"
    assert X.lt(3).dtype == "bool"
    eight = Const(5) + 3
    assert eight.value == 8
    assert X * 1 is X
    assert X + 0 is X
    nothing = X * 0
    assert nothing == Const(0)


def test_axes_have_the_operators_of_expressions() -> None:
    a = placeholder((9,), "int32", "a")
    out = compute((9,), lambda i: select(i.gt(2), a[8 - i], -i), "out")
    assert expr_text(out.body) == "select(2 < i, a[8 - i], 0 - i)"


def test_printed_text_means_the_same() -> None:
    for seed in range(40):
        expr = random_index(random.Random(seed))
        names = {"min": min, "max": max}
        at = {"x": 4, "y": 2, "z": 1}
        expected = values_of(expr)[4 * 12 + 2 * 3 + 1]
        assert eval(expr_text(expr), names, at) == expected
    chained = Binary("<", Binary("<", X, Y), Z)
    assert expr_text(chained) == "(x < y) < z"


def test_ranges() -> None:
    a = placeholder((4,), "int8", "a")
    b = compute((4,), lambda i: maximum(a[i].astype("int32") * 3, 0), "b")
    assert value_range(b.body) == (0, 381)
    assert value_range((b[X] >> 2) - 5) == (-5, 90)
    assert value_range(b[X].astype("int8")) == (0, 127)
    assert value_range(pick((4, -2, 9), X)) == (-2, 9)
    assert value_range(a[X] * 3) == (-128, 127)  # int8 products wrap
    assert value_range(select(X.lt(2), a[X].astype("int32"), -300)) == (-300, 127)


def test_a_quotient_and_its_remainder_are_the_whole() -> None:
    assert simplify(X // 4 * 12 + X % 4 * 3) == simplify(X * 3)
    flat = X * 16 + Y
    index = flat // 5 // 9 * 45 + flat // 5 % 9 * 5 + flat % 5
    assert simplify(index) == simplify(flat)
    assert simplify(X // 4 * 8 + X % 4) != simplify(X)
