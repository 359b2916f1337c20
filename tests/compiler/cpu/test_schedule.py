"""The default schedule: what becomes one loop, what stays in registers, what keeps its order."""

from __future__ import annotations

from vdla.compiler.cpu.schedule import default_schedule
from vdla.compiler.ir.printer import stmt_text
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import Tensor, compute, maximum, placeholder, reduce_axis, sum_over
from vdla.compiler.te.expr import Real

TARGET = Target.named("x86-64-avx2")


def text(output: Tensor) -> str:
    return stmt_text(lower(default_schedule(output, TARGET))[0])


def test_elements_that_are_read_where_they_are_written_are_one_loop() -> None:
    a, b = (placeholder((2, 7, 9, 5), "float32", name) for name in "ab")
    raised = compute(a.shape, lambda *i: a[i] + 1.0, "raised")
    out = compute(a.shape, lambda *i: raised[i] * b[i], "out")
    (outer, lane, store) = text(out).splitlines()
    assert outer.strip() == "for i0.i1.i2.i3.o in 20:"
    assert "(vectorize)" in lane
    at = "i0.i1.i2.i3.o * 32 + i0.i1.i2.i3.i"
    assert store.strip() == f"out[{at}] = (a[{at}] + 1.0) * b[{at}]"


def test_a_reduction_stays_in_registers_for_what_reads_it() -> None:
    x, w = placeholder((8, 64), "float32", "x"), placeholder((64, 32), "float32", "w")
    k = reduce_axis(64, "k")
    sums = compute((8, 32), lambda i, j: sum_over(x[i, k] * w[k, j], k), "sums")
    out = compute((8, 32), lambda i, j: maximum(sums[i, j], 0.0), "out")
    lines = text(out)
    assert "alloc sums: float32[64] in register" in lines  # four rows of two vectors
    assert lines.count("(unroll)") == lines.count("(vectorize)") == 3


def test_a_sum_over_neighbours_fills_vectors_unless_it_has_a_start() -> None:
    x = placeholder((3, 100), "float32", "x")
    k, r = reduce_axis(100, "k"), reduce_axis(100, "r")
    free = compute((3,), lambda i: sum_over(x[i, k], k), "free")
    kept = compute((3,), lambda i: sum_over(x[i, r], r, Real(0.0)), "kept")
    assert "(vectorize)" in text(free)
    assert "(vectorize)" not in text(kept)


def test_a_loop_of_little_work_stays_on_one_thread() -> None:
    for rows, threads in ((4, False), (4096, True)):
        x = placeholder((rows, 64), "float32", "x")
        out = compute(x.shape, lambda i, j, x=x: x[i, j] * 2.0, "out")
        assert ("(parallel)" in text(out)) == threads
