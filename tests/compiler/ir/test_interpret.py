"""The interpreter of loop IR: intrinsics by their declarations, copies, moves, and its refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.targets.operators import OPERATORS
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.printer import stmt_text
from vdla.compiler.ir.stmt import Access, Alloc, Block, Buffer, For, Store
from vdla.compiler.ir.verify import verify
from vdla.compiler.lower.nest import build_nests
from vdla.compiler.lower.vthread import interleave_threads
from vdla.compiler.targets.vdla.intrinsics import Scope, rq
from vdla.compiler.te import (
    Var,
    call,
    compute,
    create_schedule,
    max_over,
    maximum,
    minimum,
    placeholder,
    power,
    reduce_axis,
    requantize,
    select,
)
from vdla.compiler.te.expr import Call, Const
from vdla.config import TINY
from vdla.errors import LoweringError
from vdla.sim.functional.requantize import requantize as requantized

X = Var("i")
OUT = placeholder((4,), "int32", "out")
A = Buffer("out", "int32", "global", 4)
B = Buffer("b", "int32", "acc", 2)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_tensorized_schedules(name: str, threads: int, seed: int) -> None:
    """What the back end gets already computes the expression: a fault after it is the target's."""
    case = OPERATORS[name](np.random.default_rng(seed), TINY, threads)
    nest = build_nests(case.schedule)
    for body in (nest.body, interleave_threads(nest.body)):
        results = interpret(body, nest.arguments, case.inputs)
        np.testing.assert_array_equal(results[case.result], case.expected)


@pytest.mark.parametrize(("low", "high"), [(-128, 127), (-20, 90), (0, -1)])
@pytest.mark.parametrize("tensorized", [False, True])
def test_requantization(low: int, high: int, tensorized: bool) -> None:
    """The same as the functional model's, in a scalar loop and as an intrinsic."""
    n, tail = 200, (TINY.batch, TINY.block_out)
    x = placeholder((n, *tail), "int32", "x")
    p = placeholder((n, 3, *tail), "int32", "p")
    y = compute(
        x.shape,
        lambda i, b, o: requantize(x[i, b, o], *(p[i, k, b, o] for k in range(3)), low, high),
        "y",
    )
    s = create_schedule(y)
    if tensorized:
        s.cache_read(x, Scope.ACC, [y])
        s.cache_read(p, Scope.ACC, [y])
        s[y].set_scope(Scope.ACC)
        s[y].tensorize(s[y].leaves[1], rq(TINY))
    rng = np.random.default_rng(0)
    values = rng.integers(-(1 << 31), 1 << 31, x.shape).astype(np.int32)
    values[: n // 2] >>= rng.integers(0, 31, (n // 2, *tail)).astype(np.int32)
    params = np.empty(p.shape, np.int32)
    params[:, 0] = rng.integers(-(1 << 20), 1 << 20, x.shape)
    params[:, 1] = rng.integers(0, 1 << 31, x.shape)
    shift, zero = rng.integers(0, 32, x.shape), rng.integers(-128, 128, x.shape)
    params[:, 2] = shift | (zero & 255) << 8 | rng.integers(0, 2, x.shape) << 16
    clip = (low & 255) | (high & 255) << 8
    expected = requantized(values, params[:, 0], params[:, 1], params[:, 2], clip)
    nest = build_nests(s)
    results = interpret(nest.body, nest.arguments, {x: values, p: params})
    np.testing.assert_array_equal(results[y], expected)


ONE = Const(1)


def store(offset, value=ONE, loads=(), buffer=A) -> Store:
    return Store(Access(buffer, offset), value, loads)


LOAD = Call("load", (), "int32", (("position", 0),))
FAULTS = {
    "unwritten": (
        Alloc(B, For(X, Const(4), store(X, LOAD, (Access(B, Const(1)),)))),
        r"b\[1\] must be written before it is read",
    ),
    "left from the last time": (
        For(
            X,
            Const(4),
            Alloc(
                B,
                Block(
                    (
                        For(Var("j"), Const(1) - X // 1 % 2, store(Const(0), buffer=B)),
                        store(X, LOAD, (Access(B, Const(0)),)),
                    )
                ),
            ),
        ),
        r"b\[0\] must be written before it is read",
    ),
    "not computed": (store(Const(0)), "Every element of out must be computed; element 1 is not"),
    "write outside": (For(X, Const(5), store(X)), r"A write of out must lie in 0\.\.3, not at 4"),
    "read outside": (
        store(Const(0), LOAD, (Access(A, Const(-1)),)),
        r"A read of out must lie in 0\.\.3, not at -1",
    ),
    "unknown call": (
        store(Const(0), Call("sine", (), "int32")),
        "A call must be of one of abs, ceil, erf, .*, tanh, power, requantize, wrap, not of sine",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str) -> None:
    body, message = FAULTS[name]
    with pytest.raises(LoweringError, match=message):
        interpret(body, {OUT: A}, {})


def test_floats_are_computed_and_rounded_as_numpy_does() -> None:
    x = placeholder((6, 5), "float32", "x")
    y = compute(
        (6, 5),
        lambda i, j: select(x[i, j].lt(0.5), call("exp", x[i, j]) * 2.0, 1 / x[i, j]),
        "y",
    )
    k = reduce_axis(5, "k")
    z = compute((6,), lambda i: max_over(y[i, k], k), "z")
    values = np.random.default_rng(3).normal(size=(6, 5)).astype(np.float32)
    values[1, 2], values[2, 3], values[3, 4] = np.nan, np.inf, -np.inf
    expected = np.where(values < 0.5, np.exp(values) * np.float32(2), 1 / values).max(1)
    nest = build_nests(create_schedule(z))
    (result,) = interpret(nest.body, nest.arguments, {x: values}).values()
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=2e-7)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_a_float_becomes_the_nearest_integer_towards_zero(dtype: str) -> None:
    x = placeholder((7,), "float32", "x")
    y = compute((7,), lambda i: x[i].astype(dtype), "y")
    nest = build_nests(create_schedule(y))
    values = np.array([1.9, -1.9, 0.5, 3e9, -3e9, np.inf, np.nan], np.float32)
    (result,) = interpret(nest.body, nest.arguments, {x: values}).values()
    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    low = max(-1, least)
    np.testing.assert_array_equal(result, [1, low, 0, greatest, least, greatest, 0])


WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", WHOLE)
def test_integers_wrap_into_another_dtype_as_numpy_converts(dtype: str) -> None:
    for source in WHOLE:
        limits = np.iinfo(source)
        values = np.array([limits.min, limits.max, 0, 77, limits.max // 3], source)
        x = placeholder(values.shape, source, "x")
        y = compute(values.shape, lambda i, x=x: x[i].wrap(dtype), "y")
        nest = build_nests(create_schedule(y))
        (result,) = interpret(nest.body, nest.arguments, {x: values}).values()
        np.testing.assert_array_equal(result, values.astype(dtype))


@pytest.mark.parametrize("dtype", WHOLE)
def test_integer_powers_wrap(dtype: str) -> None:
    base, exponent = np.arange(12, dtype=dtype), np.arange(12, dtype=dtype)[::-1]
    a, b = (placeholder((12,), dtype, name) for name in "ab")
    y = compute((12,), lambda i: power(a[i], b[i]), "y")
    nest = build_nests(create_schedule(y))
    (result,) = interpret(nest.body, nest.arguments, {a: base, b: exponent}).values()
    np.testing.assert_array_equal(result, np.power(base, exponent))


def test_a_tensor_without_dimensions_is_one_scalar() -> None:
    x = placeholder((), "float32", "x")
    y = compute((), lambda: x[()] * 2.0, "y")
    nest = build_nests(create_schedule(y))
    (result,) = interpret(nest.body, nest.arguments, {x: np.float32(3)}).values()
    assert (result.shape, float(result)) == ((), 6.0)


@pytest.mark.parametrize("inlined", [False, True])
def test_an_index_may_be_data(inlined: bool) -> None:
    table, at = placeholder((5, 3), "float32", "table"), placeholder((4,), "int64", "at")
    index = compute((4,), lambda i: minimum(maximum(at[i], 0), 4).astype("int32"), "index")
    y = compute(
        (5, 3),
        lambda i, j: select(i.var.lt(4), table[minimum(maximum(index[i], 0), 4), j] * 2.0, -1.0),
        "y",
    )
    s = create_schedule(y)
    if inlined:
        s[index].compute_inline()
    nest = build_nests(s)
    values, places = np.arange(15, dtype=np.float32).reshape(5, 3), np.array([3, -2, 9, 0])
    verify(nest.body, "nests")
    (result,) = interpret(nest.body, nest.arguments, {table: values, at: places}).values()
    np.testing.assert_array_equal(result[:4], 2 * values[[3, 0, 4, 0]])
    assert (result[4] == -1).all()
    text = stmt_text(nest.body)
    assert ("table[min(max(int32(min(max(at[i], 0), 4)), 0), 4) * 3 + j]" in text) == inlined


def test_an_index_that_is_data_must_be_held_inside() -> None:
    table, at = placeholder((5,), "float32", "table"), placeholder((4,), "int8", "at")
    y = compute((4,), lambda i: table[maximum(at[i].astype("int32"), 0)], "y")
    nest = build_nests(create_schedule(y))
    with pytest.raises(LoweringError, match=r"reaches 0\.\.127, outside 0\.\.4"):
        verify(nest.body, "nests")
