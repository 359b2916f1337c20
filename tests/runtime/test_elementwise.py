"""Operators on each element alone, on the host and by the interpreter, against numpy or by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.one_operator import network, outcome, quant
from vdla.runtime.hostops.special import erf

SHAPES = [(), (1,), (7,), (1, 5), (2, 3, 4), (1, 2, 3, 4), (2, 1, 2, 1, 3)]

UNARY: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "erf": ({}, np.vectorize(math.erf)),
    "exp": ({}, np.exp),
    "hard_sigmoid": (
        {"alpha": 0.2, "beta": 0.5},
        lambda x: np.maximum(0, np.minimum(1, 0.2 * x + 0.5)),
    ),
    "hard_swish": ({}, lambda x: x * np.maximum(0, np.minimum(1, x / 6 + 0.5))),
    "leaky_relu": ({"alpha": 0.1}, lambda x: np.where(x >= 0, x, 0.1 * x)),
    "log": ({}, np.log),
    "sigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))),
    "sqrt": ({}, np.sqrt),
    "tanh": ({}, np.tanh),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_float(op: str, dtype: str) -> None:
    attrs, truth = UNARY[op]
    rng = np.random.default_rng(len(op))
    for shape in SHAPES:
        x = np.asarray(rng.standard_normal(shape) * 2).astype(dtype)
        x = np.abs(x) + np.asarray(0.01, dtype) if op in ("log", "sqrt") else x
        found = outcome(network(op, [x], attrs), x)
        rtol = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-10}[dtype]
        np.testing.assert_allclose(found, truth(x.astype(np.float64)), rtol, rtol / 10)


@pytest.mark.parametrize("op", UNARY)
def test_ends_of_the_range(op: str) -> None:
    attrs, truth = UNARY[op]
    x = np.array([np.inf, 1e30, 0, -0.0, np.nan], np.float32)
    x = x if op in ("log", "sqrt") else np.array([*x, -1e30, -np.inf], np.float32)
    with np.errstate(all="ignore"):
        want = truth(x.astype(np.float64)).astype(np.float32)
        if op == "hard_swish":
            want[-1] = np.nan  # -inf * 0
    np.testing.assert_allclose(outcome(network(op, [x], attrs), x), want, 1e-6)


def test_a_leaky_relu_of_integers_is_rounded_once() -> None:
    x = np.arange(-128, 128).astype(np.int8)[np.newaxis]
    graph = network("leaky_relu", [x], {"alpha": 0.125}, quants=[quant(0.5, 3), quant(0.25, -7)])
    steps = 2.0 * (x.astype(np.float64) - 3)
    steps = np.where(steps < 0, steps / 8, steps)
    want = np.clip(np.floor(steps + 0.5) - 7, -128, 127)
    np.testing.assert_array_equal(outcome(graph, x), want)


def test_erf_between_its_points() -> None:
    x = np.linspace(-7, 7, 20011)
    want = np.array([math.erf(value) for value in x])
    np.testing.assert_allclose(erf(x), want, 0, 1e-11)
    small = np.geomspace(1e-30, 1e-3, 100)
    np.testing.assert_allclose(erf(small), small * 2 / math.sqrt(math.pi), 1e-6)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "div": lambda a, b: a / b,
    "equal": lambda a, b: a == b,
    "maximum": lambda a, b: np.where(a > b, a, b),
    "minimum": lambda a, b: np.where(a < b, a, b),
    "mul": lambda a, b: a * b,
    "pow": lambda a, b: np.abs(a) ** b,
    "sub": lambda a, b: a - b,
}
PAIRS = [
    ((), ()),
    ((3,), ()),
    ((), (2, 3)),
    ((2, 3), (3,)),
    ((4, 1, 3), (2, 1)),
    ((1, 2, 3, 4), (4,)),
    ((1, 2, 1, 4), (1, 1, 3, 1)),
]


@pytest.mark.parametrize("op", BINARY)
def test_two_floats_broadcast(op: str) -> None:
    rng = np.random.default_rng(len(op))
    attrs = {"clip": (-np.inf, np.inf), "rounding": "double"} if op == "add" else {}
    dtype = "bool" if op == "equal" else None
    for left, right in PAIRS:
        a, b = (np.asarray(rng.integers(-3, 4, s) + 0.5, np.float32) for s in (left, right))
        a = np.abs(a) if op == "pow" else a
        found = outcome(network(op, [a, b], attrs, dtype=dtype), a, b)
        want = BINARY[op](a, b)
        np.testing.assert_allclose(found, want, 1e-6)


@pytest.mark.parametrize("constant", [0, 1])
def test_a_constant_operand(constant: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    row = np.float32([1, 2, 3, 4])
    pair = [row, x] if constant == 0 else [x, row]
    graph = network("sub", pair, constant=[constant])
    np.testing.assert_array_equal(outcome(graph, x), pair[0] - pair[1])


def test_a_fused_activation_clips_floats() -> None:
    a = np.float32([-5, 1, 5])
    graph = network("add", [a, a], {"clip": (0.0, 6.0), "rounding": "double"})
    np.testing.assert_array_equal(outcome(graph, a, a), [0, 2, 6])
    for op in ("relu", "relu6", "clip"):
        graph = network(op, [a], {"clip": (-1.5, 4.0), "rounding": "double"})
        np.testing.assert_array_equal(outcome(graph, a), [-1.5, 1, 4])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
def test_plain_integers_wrap_around(dtype: str) -> None:
    limits = np.iinfo(dtype)
    every = {"clip": (limits.min, limits.max), "rounding": "double"}
    source = np.random.default_rng(0)
    a, b = (source.integers(limits.min, limits.max, (3, 5), dtype, endpoint=True) for _ in range(2))
    size, low = 1 << limits.bits, int(limits.min)
    for op, attrs, exact in (
        ("add", every, lambda x, y: x + y),
        ("sub", {}, lambda x, y: x - y),
        ("mul", {}, lambda x, y: x * y),
    ):
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        want = [(exact(x, y) - low) % size + low for x, y in pairs]
        assert outcome(network(op, [a, b], attrs), a, b).ravel().tolist() == want


def test_plain_integers_are_clipped() -> None:
    a = np.array([-100, -3, 0, 3, 100], np.int64)
    attrs = {"clip": (-3, 50), "rounding": "double"}
    for op in ("relu", "clip"):
        assert outcome(network(op, [a], attrs), a).tolist() == [-3, -3, 0, 3, 50]
    assert outcome(network("add", [a, a], attrs), a, a).tolist() == [-3, -3, 0, 6, 50]
    unsigned = np.array([0, 7, 255], np.uint8)
    attrs = {"clip": (float("-inf"), 9.0), "rounding": "double"}
    assert outcome(network("clip", [unsigned], attrs), unsigned).tolist() == [0, 7, 9]


def test_integers_divide_towards_zero() -> None:
    a = np.array([7, -7, 7, -7, 6, -6, 0, 1], np.int32)
    b = np.array([2, 2, -2, -2, 3, 3, -5, -5], np.int32)
    assert outcome(network("div", [a, b]), a, b).tolist() == [3, -3, -3, 3, 2, -2, 0, 0]
    a, b = np.array([200, 255], np.uint8), np.array([7, 16], np.uint8)
    assert outcome(network("div", [a, b]), a, b).tolist() == [28, 15]


def test_integers_to_powers() -> None:
    a = np.array([2, -3, 5, 1, -1, -1, 2, 0, 10], np.int32)
    b = np.array([10, 3, 0, -4, -4, -3, -1, 5, 10], np.int32)
    # 10**10 wraps around.
    want = [1024, -27, 1, 1, 1, -1, 0, 0, 10**10 - (1 << 32) * 2]
    want[-1] = (10**10 + (1 << 31)) % (1 << 32) - (1 << 31)
    assert outcome(network("pow", [a, b]), a, b).tolist() == want


def test_no_number_stays_none_in_a_maximum() -> None:
    a, b = np.float32([np.nan, 1, 2]), np.float32([1, np.nan, 3])
    for op in ("maximum", "minimum"):
        assert np.isnan(outcome(network(op, [a, b]), a, b)).tolist() == [True, True, False]


def test_bools_are_compared_and_combined() -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert outcome(network("equal", [a, b]), a, b).tolist() == [True, False, False, True]
    assert outcome(network("maximum", [a, b]), a, b).tolist() == [True, True, True, False]
    assert outcome(network("minimum", [a, b]), a, b).tolist() == [True, False, False, False]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_where_chooses(dtype: str) -> None:
    source = np.random.default_rng(0)
    c = source.integers(0, 2, (2, 1, 4)).astype(bool)
    a, b = source.integers(0, 5, (3, 4)).astype(dtype), source.integers(0, 5, ()).astype(dtype)
    a, b = np.asarray(a), np.asarray(b)
    found = outcome(network("where", [c, a, b]), c, a, b)
    assert found.shape == (2, 3, 4)
    for index in np.ndindex(2, 3, 4):
        i, j, k = index
        assert found[index] == (a[j, k] if c[i, 0, k] else b)


@pytest.mark.parametrize("slope", [(), (4,), (3, 1), (2, 3, 4)])
def test_a_slope_a_channel(slope: tuple[int, ...]) -> None:
    source = np.random.default_rng(0)
    x = source.standard_normal((2, 3, 4)).astype(np.float32)
    s = np.asarray(source.random(slope), np.float32)
    want = np.where(x > 0, x, np.broadcast_to(s, x.shape) * x)
    np.testing.assert_allclose(outcome(network("prelu", [x, s], constant=[1]), x), want, 1e-6)


@pytest.mark.parametrize(
    ("source", "target", "values", "want"),
    [
        ("float32", "int32", [1.9, -1.9, 0.0], [1, -1, 0]),
        ("float32", "bool", [0.0, -0.0, 1e-30], [False, False, True]),
        ("int64", "int8", [300, -129, 5], [44, 127, 5]),
        ("bool", "float16", [True, False], [1.0, 0.0]),
        ("uint8", "float64", [255], [255.0]),
        ("float64", "float32", [0.1], [float(np.float32(0.1))]),
    ],
)
def test_casts(source: str, target: str, values: list[Any], want: list[Any]) -> None:
    x = np.array(values, source)
    found = outcome(network("cast", [x], dtype=target), x)
    assert found.dtype == target
    assert found.tolist() == want
