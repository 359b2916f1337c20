"""Lowered IR of small schedules, as text: a change of it is seen and meant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vdla.compiler.ir.printer import stmt_text
from vdla.compiler.lower.nest import build_nests
from vdla.compiler.lower.vthread import interleave_threads
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, alu_imm, gemm
from vdla.compiler.te import (
    Schedule,
    all_of,
    compute,
    create_schedule,
    max_over,
    minimum,
    placeholder,
    reduce_axis,
    select,
    sum_over,
)
from vdla.config import TINY
from vdla.isa import AluOp


def partial_tiles() -> Schedule:
    """Tiles that do not divide, one inside another."""
    a = placeholder((10, 7), "int8", "a")
    out = compute((10, 7), lambda i, j: a[i, j] + 1, "out")
    s = create_schedule(out)
    i, j, i_in, j_in = s[out].tile(*s[out].leaves, 4, 3)
    s[out].split(i_in, factor=3)
    s[out].fuse(i, j)
    return s


def stencil() -> Schedule:
    """Only what a tile needs is computed in it, a row more at its edge."""
    a = placeholder((9, 4), "int32", "a")
    b = compute((9, 4), lambda i, j: a[i, j] * 2, "b")
    out = compute((8, 4), lambda i, j: b[i, j] - b[i + 1, j], "out")
    s = create_schedule(out)
    outer, _ = s[out].split(s[out].leaves[0], factor=3)
    s[b].compute_at(s[out], outer)
    s[b].set_scope("cache")
    return s


def padded() -> Schedule:
    """Rows of a buffer begin at multiples of 8, whatever a tile takes of them."""
    a = placeholder((6, 10), "int32", "a")
    b = compute((6, 10), lambda i, j: a[i, j] * 2, "b")
    out = compute((6, 10), lambda i, j: b[i, j] + 1, "out")
    s = create_schedule(out)
    i, j = s[out].leaves
    outer, _ = s[out].split(j, factor=4)
    s[out].reorder(outer, i)
    s[b].compute_at(s[out], outer)
    s[b].storage_align(s[b].axis[0], 8)
    return s


def matrix_product() -> Schedule:
    """Caches, a split reduction and inlined elements, scalar by scalar."""
    a, b = placeholder((4, 6), "int8", "a"), placeholder((5, 6), "int8", "b")
    k = reduce_axis(6, "k")
    c = compute(
        (4, 5), lambda i, j: sum_over(a[i, k].astype("int32") * b[j, k].astype("int32"), k), "c"
    )
    half = compute((4, 5), lambda i, j: c[i, j] >> 1, "half")
    out = compute((4, 5), lambda i, j: minimum(half[i, j], 100), "out")
    s = create_schedule(out)
    s[half].compute_inline()
    fast = s.cache_read(b, "fast", [c])
    i, j = s[out].leaves
    s[c].compute_at(s[out], i)
    ci, cj, _ = s[c].leaves
    outer, inner = s[c].split(k, nparts=2)
    s[c].reorder(outer, ci, cj, inner)
    s[fast].compute_at(s[c], outer)
    s[out].unroll(j)
    return s


def pooling_threads() -> Schedule:
    """A padded copy and a reduction by an intrinsic, in two virtual threads."""
    tail = (TINY.batch, TINY.block_out)
    data = placeholder((6, 6, *tail), "int8", "data")
    pad = compute(
        (8, 8, *tail),
        lambda y, x, b, o: select(
            all_of(y.ge(1), y.lt(7), x.ge(1), x.lt(7)),
            data[y - 1, x - 1, b, o].astype("int32"),
            -128,
        ),
        "pad",
    )
    ky, kx = reduce_axis(2, "ky"), reduce_axis(2, "kx")
    best = compute(
        (4, 4, *tail),
        lambda y, x, b, o: max_over(pad[2 * y + ky, 2 * x + kx, b, o], (ky, kx)),
        "best",
    )
    out = compute(best.shape, lambda *i: best[i].astype("int8"), "out")
    s = create_schedule(out)
    y, thread = s[out].split(s[out].leaves[0], factor=2)
    s[out].bind(thread, "vthread")
    s[out].pragma(s[out].leaves[2], "dma_copy")
    for stage in (pad, best):
        s[stage].set_scope(Scope.ACC)
        s[stage].compute_at(s[out], thread)
    s[pad].pragma(s[pad].leaves[0], "dma_copy")
    by, bx, bb, bo, *_ = s[best].leaves
    s[best].reorder(by, bx, ky, kx, bb, bo)
    s[best].tensorize(bb, alu(TINY, AluOp.MAX))
    return s


def kept_operand() -> Schedule:
    """An in-place operation whose operand is needed again: it is moved first."""
    shape = (5, TINY.batch, TINY.block_out)
    a = placeholder(shape, "int8", "a")
    wide = compute(shape, lambda *i: a[i].astype("int32"), "wide")
    half = compute(shape, lambda *i: wide[i] >> 1, "half")
    total = compute(shape, lambda *i: half[i] + wide[i], "total")
    out = compute(shape, lambda *i: total[i].astype("int8"), "out")
    s = create_schedule(out)
    for stage, axis in ((wide, 0), (out, 0)):
        s[stage].pragma(s[stage].leaves[axis], "dma_copy")
    for stage in (wide, half, total):
        s[stage].set_scope(Scope.ACC)
    s[half].tensorize(s[half].leaves[1], alu_imm(TINY, AluOp.SHR))
    s[total].tensorize(s[total].leaves[1], alu(TINY, AluOp.ADD))
    return s


def block_product() -> Schedule:
    """The GEMM core's intrinsic with its reduction outside, in two virtual threads."""
    b, i, o = TINY.batch, TINY.block_in, TINY.block_out
    data, weights = placeholder((3, b, i), "int8", "data"), placeholder((4, 3, o, i), "int8", "w")
    k, lane = reduce_axis(3, "k"), reduce_axis(i, "lane")
    acc = compute(
        (4, b, o),
        lambda m, p, q: sum_over(
            data[k, p, lane].astype("int32") * weights[m, k, q, lane].astype("int32"), (k, lane)
        ),
        "acc",
    )
    out = compute(acc.shape, lambda *at: acc[at].astype("int8"), "out")
    s = create_schedule(out)
    buffers = (
        (s.cache_read(data, Scope.INP, [acc]), Scope.INP),
        (s.cache_read(weights, Scope.WGT, [acc]), Scope.WGT),
    )
    m, thread = s[out].split(s[out].leaves[0], factor=2)
    s[out].bind(thread, "vthread")
    s[out].pragma(s[out].leaves[2], "dma_copy")
    s[acc].set_scope(Scope.ACC)
    s[acc].compute_at(s[out], thread)
    am, ap, aq, *_ = s[acc].leaves
    s[acc].reorder(k, am, ap, aq, lane)
    s[acc].tensorize(ap, gemm(TINY))
    for buffer, _ in buffers:
        s[buffer].compute_at(s[acc], k)
        s[buffer].pragma(s[buffer].leaves[0], "dma_copy")
    return s


SCHEDULES = (
    partial_tiles,
    stencil,
    padded,
    matrix_product,
    pooling_threads,
    kept_operand,
    block_product,
)


@pytest.mark.parametrize("make", SCHEDULES, ids=lambda make: make.__name__)
def test_lowered_text(make: Callable[[], Schedule], golden: Callable[[str, str], None]) -> None:
    nest = build_nests(make())
    threads = interleave_threads(nest.body)
    text = f"# after nests\n{stmt_text(nest.body)}\n# after threads\n{stmt_text(threads)}\n"
    golden(text, f"{make.__name__}.txt")
