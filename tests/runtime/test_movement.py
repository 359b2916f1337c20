"""Operators that move elements, on the host and by the interpreter, against numpy."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest

from tests.one_operator import network, outcome, quant
from vdla.errors import InputError
from vdla.runtime.network import Network

DTYPES = ["float32", "int8", "int64", "uint8", "bool", "float16"]


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).integers(0, 100, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposes(dtype: str) -> None:
    for shape, perm in (
        ((), ()),
        ((5,), (0,)),
        ((2, 3), (1, 0)),
        ((1, 3, 4, 5), (0, 3, 1, 2)),
        ((2, 3, 4, 5), (3, 2, 0, 1)),
        ((1, 2, 1, 3, 2), (4, 1, 0, 2, 3)),
    ):
        x = numbers(shape, dtype)
        found = outcome(network("transpose", [x], {"perm": perm}), x)
        np.testing.assert_array_equal(found, x.transpose(perm))


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices(dtype: str) -> None:
    x = numbers((5, 1, 6), dtype)
    for begin, end, step, want in (
        ((0, 0, 0), (5, 1, 6), (1, 1, 1), x),
        ((1, 0, 2), (4, 1, 3), (1, 1, 1), x[1:4, :, 2:3]),
        ((0, 0, 1), (5, 1, 6), (2, 1, 3), x[::2, :, 1::3]),
        ((4, 0, 5), (-1, -1, 0), (-1, -1, -2), x[::-1, ::-1, 5:0:-2]),
    ):
        graph = network("slice", [x], {"begin": begin, "end": end, "step": step})
        np.testing.assert_array_equal(outcome(graph, x), want)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads(mode: str) -> None:
    for shape, paddings in (
        ((4,), ((1, 2),)),
        ((3, 2), ((0, 3), (5, 1))),
        ((1, 4, 3, 2), ((0, 0), (2, 3), (0, 7), (0, 0))),
    ):
        x = numbers(shape)
        attrs = {"mode": mode, "paddings": paddings, "value": -1.5}
        want = np.pad(
            x, paddings, mode, **({"constant_values": -1.5} if mode == "constant" else {})
        )
        np.testing.assert_array_equal(outcome(network("pad", [x], attrs), x), want)


def test_gathers() -> None:
    x = numbers((3, 4, 5))
    for axis in range(3):
        for indices in (np.array(1), np.array([2, 0, -1]), np.array([[0, 1], [1, -2]])):
            for kind in ("int32", "int64"):
                index = indices.astype(kind)
                graph = network("gather", [x, index], {"axis": axis}, constant=[1], dtype="float32")
                np.testing.assert_array_equal(outcome(graph, x), np.take(x, index, axis))
    table = numbers((10, 2), "int8")
    words = np.array([[3, 1, 9]], np.int32)
    graph = network("gather", [table, words], {"axis": 0}, constant=[0], dtype="int8")
    np.testing.assert_array_equal(outcome(graph, words), table[words])
    both = network("gather", [table, words], {"axis": 0}, dtype="int8")
    np.testing.assert_array_equal(outcome(both, table, words), table[words])


def test_an_index_outside_is_refused() -> None:
    import vdla

    table, words = numbers((10, 2)), np.array([3], np.int32)
    graph = network("gather", [table, words], {"axis": 0}, constant=[0], dtype="float32")
    net: Network = vdla.compile(graph, cache=False)
    with pytest.raises(InputError, match=r"into 10 elements must lie in -10..9, not 10 \('gather'"):
        net.run(np.array([10], np.int32), device="functional")


def test_expands() -> None:
    for shape, wide in (((), (2, 3)), ((3,), (2, 3)), ((1, 4, 1), (1, 4, 5)), ((2, 1), (4, 2, 3))):
        x = numbers(shape)
        found = outcome(network("expand", [x], {"shape": wide}), x)
        np.testing.assert_array_equal(found, np.ones(wide, np.float32) * x)


def test_reshapes() -> None:
    for shape, other in (((), (1, 1)), ((1, 6), (6,)), ((4, 6), (1, 3, 8)), ((1, 2, 3), (1, 6))):
        x = numbers(shape)
        found = outcome(network("reshape", [x], {"shape": other}), x)
        np.testing.assert_array_equal(found, x.reshape(other))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_concatenations(axis: int, dtype: str) -> None:
    parts = []
    for k, size in enumerate((2, 1, 3, 1, 2)):
        shape = [1, 2, 3, 4]
        shape[axis] = size
        parts.append(numbers(tuple(shape), dtype, seed=k))
    want = np.concatenate(parts, axis)
    np.testing.assert_array_equal(outcome(network("concat", parts, {"axis": axis}), *parts), want)
    alone = network("concat", parts[:1], {"axis": axis})
    np.testing.assert_array_equal(outcome(alone, parts[0]), parts[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_concatenation_brings_inputs_to_one_scale(dtype: str) -> None:
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(dtype)[np.newaxis]
    # (scale, zero point): the output's own, another zero point, a finer and a coarser scale.
    points = [(0.5, 3), (0.5, -7), (0.25, 10), (1.25, 0)]
    if dtype == "uint8":
        points = [(scale, zero + 100) for scale, zero in points]
    quants = [quant(*p) for p in (*points, points[0])]
    found = outcome(network("concat", [every] * 4, {"axis": 1}, quants=quants), *[every] * 4)
    out_scale, out_zero = points[0]
    want = []
    for scale, zero in points:
        for q in every.ravel().tolist():
            # A power of two and five quarters are exact in fixed point; ties go up.
            steps = Fraction(scale) / Fraction(out_scale) * (q - zero)
            want.append(min(max(floor(steps + Fraction(1, 2)) + out_zero, limits.min), limits.max))
    assert found.ravel().tolist() == want


def test_movements_keep_scales() -> None:
    x = numbers((1, 3, 2), "int8")
    q = quant(0.1, 3)
    cases: list[tuple[str, dict[str, Any], np.ndarray]] = [
        ("transpose", {"perm": (0, 2, 1)}, x.transpose(0, 2, 1)),
        ("slice", {"begin": (0, 1, 0), "end": (1, 3, 1), "step": (1, 1, 1)}, x[:, 1:3, :1]),
        ("reshape", {"shape": (6,)}, x.reshape(6)),
        ("expand", {"shape": (1, 3, 2)}, x),
        ("reduce_max", {"axes": (1,), "keep_dims": False}, x.max(1)),
    ]
    for op, attrs, want in cases:
        graph = network(op, [x], attrs, quants=[q, q])
        np.testing.assert_array_equal(outcome(graph, x), want)
