"""Loops of vectors: which become some, and what they compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.targets.gpu.on_processor import run_as
from vdla.compiler.ir.linear import simplify
from vdla.compiler.ir.stmt import Access, Buffer, Store
from vdla.compiler.targets.gpu import CUDA, METAL, OPENCL, Dialect, Kernel, build_kernel, source_of
from vdla.compiler.targets.gpu.kernel import Guard, Loop, walk
from vdla.compiler.targets.gpu.vectors import in_vectors
from vdla.compiler.te import (
    Expr,
    Var,
    call,
    compute,
    create_schedule,
    maximum,
    placeholder,
    select,
)
from vdla.compiler.te.expr import Call, Const
from vdla.runtime.opencl import OpenClDevice

ROW, LANE = Var("row"), Var("lane")
GIVEN = Buffer("a", "float32", "global", 64)
MADE = Buffer("out", "float32", "global", 64)
OWN = Buffer("own", "float32", "register", 64)
FLAGS = Buffer("flags", "bool", "global", 64)
LOADED = Call("load", (), "float32", (("position", 0),))


def loop(target: Access, value: Expr, *loads: Access, lanes: int = 4) -> Loop:
    return Loop(LANE, Const(lanes), Store(target, value, loads), unroll=True)


def at(buffer: Buffer, offset: Expr) -> Access:
    return Access(buffer, simplify(offset))


WHOLE = at(MADE, ROW * 4 + LANE)


@pytest.mark.parametrize(
    "made",
    [
        loop(WHOLE, LOADED, at(GIVEN, ROW * 8 + LANE + 4)),
        loop(at(MADE, ROW * 6 + LANE + 2), LOADED, at(GIVEN, ROW + 0), lanes=2),
        loop(WHOLE, LOADED * 2, at(GIVEN, ROW * 7 + LANE * 3)),  # read one by one
        loop(WHOLE, LOADED, at(OWN, ROW * 4 + LANE)),
        loop(WHOLE, select((ROW * 4 + LANE).lt(20), LOADED, 0.0), at(GIVEN, ROW * 4 + LANE)),
        loop(WHOLE, select((ROW * 4).lt(19), LOADED, 0.0), at(GIVEN, ROW * 4 + LANE)),
    ],
)
def test_whole_vectors_are_stored_at_once(made: Loop) -> None:
    vectors = in_vectors(made)
    assert isinstance(vectors, Loop)
    assert vectors.vector


@pytest.mark.parametrize(
    "made",
    [
        loop(at(MADE, ROW * 4 + LANE + 1), LOADED, at(GIVEN, ROW * 4 + LANE)),  # unaligned
        loop(at(MADE, ROW * 6 + LANE), LOADED, at(GIVEN, ROW * 4 + LANE)),
        loop(at(MADE, ROW + LANE * 4), LOADED, at(GIVEN, ROW * 4 + LANE)),  # apart
        loop(at(MADE, (ROW * 4 + LANE) // 2), LOADED, at(GIVEN, ROW * 4 + LANE)),
        loop(at(OWN, ROW * 4 + LANE), LOADED, at(GIVEN, ROW * 4 + LANE)),
        loop(at(MADE, ROW * 3 + LANE), LOADED, at(GIVEN, ROW * 4 + LANE), lanes=3),
        loop(at(FLAGS, ROW * 4 + LANE), LOADED, at(FLAGS, ROW * 4 + LANE)),  # no float32
        loop(WHOLE, select((ROW * 4 + LANE).lt(19), LOADED, 0.0), at(GIVEN, ROW * 4 + LANE)),
        loop(WHOLE, select(LANE.lt(2), LOADED, 0.0), at(GIVEN, ROW * 4 + LANE)),
        loop(WHOLE, select(Const(6).lt(ROW * 4 + LANE), LOADED, 0.0), at(GIVEN, ROW * 4 + LANE)),
    ],
)
def test_what_is_no_whole_vector_is_left_as_it_is(made: Loop) -> None:
    assert in_vectors(made) is made


def test_a_condition_that_all_lanes_meet_or_none_goes_around() -> None:
    made = loop(WHOLE, LOADED, at(GIVEN, ROW * 4 + LANE))
    guarded = Loop(LANE, Const(4), Guard(((ROW * 4 + LANE).lt(20),), made.body), unroll=True)
    vectors = in_vectors(guarded)
    assert isinstance(vectors, Guard)
    assert vectors.conditions == ((ROW * 4).lt(20),)
    torn = Loop(LANE, Const(4), Guard(((ROW * 4 + LANE).lt(18),), made.body), unroll=True)
    assert in_vectors(torn) is torn


def computed(rows: int, columns: int) -> Kernel:
    """``out = max(a, 0) + |b[j]|`` where a column is below 8, else ``a - 1``, four at a time."""
    a = placeholder((rows, columns), "float32", "a")
    b = placeholder((columns,), "float32", "b")

    def value(i: Expr, j: Expr) -> Expr:
        return select(j.lt(8), maximum(a[i, j], 0.0) + call("abs", b[j]), a[i, j] - 1)

    out = compute((rows, columns), value, "out")
    s = create_schedule(out)
    i, j = s[out].axis
    j_thread, lane = s[out].split(j, factor=4)
    s[out].bind(i, "blockIdx.x")
    s[out].bind(j_thread, "threadIdx.x")
    s[out].vectorize(lane)
    return build_kernel("computed", s, [a, b, out])


def _exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    below = np.arange(a.shape[1]) < 8
    return np.where(below, np.maximum(a, 0) + np.abs(b), a - 1)


@pytest.mark.parametrize("columns", [8, 20, 21])
@pytest.mark.parametrize("dialect", [OPENCL, CUDA, METAL], ids=lambda dialect: dialect.name)
def test_what_is_computed_lane_by_lane_is_the_same(
    dialect: Dialect, columns: int, pocl: OpenClDevice, tmp_path: Path
) -> None:
    kernel = computed(3, columns)
    found = [part.vector for part in walk(kernel.body) if isinstance(part, Loop)]
    assert found == [columns != 21]
    rng = np.random.default_rng(4)
    a = rng.standard_normal((3, columns)).astype(np.float32)
    b = rng.standard_normal(columns).astype(np.float32)
    if dialect is OPENCL:
        (out,) = pocl.build(kernel)(a, b)
    else:
        out = run_as(dialect, kernel, a, b, folder=tmp_path)
    np.testing.assert_array_equal(out, _exact(a, b))


def test_a_vector_is_read_before_it_is_computed_with() -> None:
    source = source_of(computed(3, 8), CUDA)
    assert "const float4 b_lanes = *(const float4 *)&b[4 * thread_x];" in source
    assert "= make_float4(" in source
    assert "__attribute__((aligned(16)))" not in source  # nothing is shared
    assert source_of(computed(3, 8), OPENCL).count("(float4)(") == 1
    assert source_of(computed(3, 8), METAL).count(" = float4(") == 1
