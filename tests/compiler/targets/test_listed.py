"""Sums that go on from others, over lists of blocks that follow no formula."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.targets.operators import Case, run
from tests.configs import MATRIX
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.lower.nest import build_nests
from vdla.compiler.lower.vthread import interleave_threads
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, gemm
from vdla.compiler.te import (
    Expr,
    IterVar,
    compute,
    create_schedule,
    minimum,
    pick,
    placeholder,
    reduce_axis,
    sum_over,
)
from vdla.config import TINY, Config
from vdla.errors import LoweringError, ScheduleError
from vdla.isa import AluOp

COUNTS = (2, 0, 1, 3, 0)
"""Listed blocks of each block of outputs."""

SOURCES = (1, 3, 0, 2, 2, 1)
"""The block of inputs that each listed block reads."""

INPUTS = 4


def listed(rng: np.random.Generator, config: Config, threads: int, kept: bool) -> Case:
    """A product of blocks with listed ones on top; with ``kept``, the lesser of both sums."""
    n = int(rng.integers(1, 6))
    b, bi, bo = config.batch, config.block_in, config.block_out
    starts = [sum(COUNTS[:m]) for m in range(len(COUNTS))]
    data = placeholder((n, INPUTS, b, bi), "int8", "data")
    weights = placeholder((len(COUNTS), INPUTS, bo, bi), "int8", "weights")
    extra = placeholder((len(SOURCES), bo, bi), "int8", "extra")
    shape = (n, len(COUNTS), b, bo)
    k, i, ii = reduce_axis(INPUTS, "k"), reduce_axis(bi, "i"), reduce_axis(bi, "ii")

    def product(x: IterVar, m: IterVar, bb: IterVar, o: IterVar) -> Expr:
        return sum_over(
            data[x, k, bb, i].astype("int32") * weights[m, k, o, i].astype("int32"), (k, i)
        )

    acc = compute(shape, product, "acc")

    def more(x: IterVar, m: IterVar, bb: IterVar, o: IterVar) -> Expr:
        entry = reduce_axis(pick(COUNTS, m), "entry")
        at = pick(starts, m) + entry
        value = data[x, pick(SOURCES, at), bb, ii].astype("int32")
        return sum_over(value * extra[at, o, ii].astype("int32"), (entry, ii), acc[x, m, bb, o])

    total = compute(shape, more, "total")
    least = compute(shape, lambda *j: minimum(total[j], acc[j]), "least") if kept else total
    result = compute(shape, lambda *j: least[j].astype("int8"), "result")

    s = create_schedule(result)
    buffers = [s.cache_read(t, Scope.WGT, [r]) for t, r in ((weights, acc), (extra, total))]
    buffers.append(s.cache_read(data, Scope.INP, [acc, total]))
    for buffer in buffers:
        s[buffer].pragma(s[buffer].leaves[0], "dma_copy")
    out = s[result]
    at, inner = out.split(out.leaves[0], factor=2)
    if threads > 1:
        _, at = out.split(at, factor=threads)
        out.bind(at, "vthread")
    out.pragma(inner, "dma_copy")
    for tensor in (acc, total):
        x, m, bb, o, entry, lane = s[tensor].leaves
        s[tensor].reorder(x, m, entry, bb, o, lane)
        s[tensor].tensorize(bb, gemm(config))
    if kept:
        s[least].tensorize(s[least].leaves[2], alu(config, AluOp.MIN))
    for tensor in dict.fromkeys((acc, total, least)):
        s[tensor].set_scope(Scope.ACC)
        s[tensor].compute_at(out, at)

    values = {t: rng.integers(-4, 5, t.shape).astype(np.int8) for t in (data, weights, extra)}
    d, w, e = (v.astype(np.int32) for v in values.values())
    first = np.einsum("nkbi,mkoi->nmbo", d, w)
    second = first.copy()
    for place, source in enumerate(SOURCES):
        m = int(np.repeat(np.arange(len(COUNTS)), COUNTS)[place])
        second[:, m] += np.einsum("nbi,oi->nbo", d[:, source], e[place])
    both = np.minimum(first, second) if kept else second
    return Case(s, values, result, np.clip(both, -128, 127).astype(np.int8))


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kept", [False, True])
def test_on_the_machine(config: Config, threads: int, kept: bool) -> None:
    case = listed(np.random.default_rng(threads), config, threads, kept)
    np.testing.assert_array_equal(run(case, config), case.expected)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kept", [False, True])
def test_as_loops(threads: int, kept: bool) -> None:
    case = listed(np.random.default_rng(3), TINY, threads, kept)
    nest = build_nests(case.schedule)
    for body in (nest.body, interleave_threads(nest.body)):
        results = interpret(body, nest.arguments, case.inputs)
        np.testing.assert_array_equal(results[case.result], case.expected)


def test_scalar_by_scalar() -> None:
    """A ragged sum that begins with another tensor, without any intrinsic."""
    a, b = placeholder((5, 3), "int32", "a"), placeholder((5,), "int32", "b")

    def body(i: IterVar) -> Expr:
        r = reduce_axis(pick((3, 0, 1, 2, 3), i), "r")
        return sum_over(a[i, pick((2, 0, 1), r)], r, b[i] * 2)

    out = compute((5,), body, "out")
    s = create_schedule(out)
    s[out].split(s[out].leaves[0], factor=2)
    nest = build_nests(s)
    x, y = np.arange(15, dtype=np.int32).reshape(5, 3), np.arange(5, dtype=np.int32) * 100
    found = interpret(nest.body, nest.arguments, {a: x, b: y})[out]
    assert found.tolist() == [0 + 1 + 2, 200, 400 + 8, 600 + 9 + 11, 800 + 12 + 13 + 14]


def test_a_start_of_another_dtype() -> None:
    a = placeholder((5, 3), "int32", "a")
    r = reduce_axis(3, "r")
    with pytest.raises(ScheduleError, match="must start from its own dtype, int32, not int8: conv"):
        compute((5,), lambda i: sum_over(a[i, r], r, a[i, 0].astype("int8")), "out")


def test_an_intrinsic_starts_from_a_tensor() -> None:
    data = placeholder((2, TINY.batch, TINY.block_in), "int8", "data")
    weights = placeholder((TINY.block_out, TINY.block_in), "int8", "weights")
    before = placeholder((2, TINY.batch, TINY.block_out), "int32", "before")
    i = reduce_axis(TINY.block_in, "i")
    out = compute(
        before.shape,
        lambda x, b, o: sum_over(
            data[x, b, i].astype("int32") * weights[o, i].astype("int32"), i, before[x, b, o] + 1
        ),
        "out",
    )
    s = create_schedule(out)
    s[out].tensorize(s[out].leaves[1], gemm(TINY))
    with pytest.raises(LoweringError, match="gemm must start from a tensor's elements, not from"):
        build_nests(s)
