"""Long reductions whose terms a block's threads share, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tests.compiler.targets.gpu.schedules import Made
from vdla.compiler.gpu.reductions import schedule_reduction
from vdla.compiler.te import Tensor, compute, max_over, min_over, placeholder, reduce_axis, sum_over

__all__ = ["CASES"]

Array = np.ndarray


def _made(a: Tensor, output: Tensor) -> Made:
    schedule = schedule_reduction(output)
    assert schedule is not None
    return schedule, [a, *schedule.outputs]


def _rows(rows: int, columns: int) -> Made:
    """Terms lie side by side."""
    a = placeholder((rows, columns), "float32", "a")
    k = reduce_axis(columns, "k")
    return _made(a, compute((rows,), lambda i: max_over(a[i, k], k), "out"))


def _means(shape: tuple[int, int, int, int]) -> Made:
    """Over an image; the channels lie side by side. What follows reads the sums at its element."""
    a = placeholder(shape, "float32", "a")
    n, h, w, c = shape
    i, j = reduce_axis(h, "i"), reduce_axis(w, "j")
    sums = compute((n, c), lambda b, o: sum_over(a[b, i, j, o], (i, j)), "sums")
    return _made(a, compute((n, c), lambda b, o: sums[b, o] / float(h * w) + 1, "out"))


def _squares(shape: tuple[int, int, int]) -> Made:
    """Of all elements, to one."""
    a = placeholder(shape, "float32", "a")
    i, j, k = (reduce_axis(size, name) for size, name in zip(shape, "ijk", strict=True))
    out = compute((1,), lambda _: sum_over(a[i, j, k] * a[i, j, k], (i, j, k)), "out")
    return _made(a, out)


def _across(shape: tuple[int, int, int]) -> Made:
    """Over the dimension in the middle."""
    a = placeholder(shape, "float32", "a")
    k = reduce_axis(shape[1], "k")
    return _made(a, compute((shape[0], shape[2]), lambda i, j: min_over(a[i, k, j], k), "out"))


CASES: Mapping[str, tuple[Made, Callable[..., Array]]] = {
    "rows of 1000": (_rows(3, 1000), lambda a: a.max(1)),
    "rows of 45": (_rows(12, 45), lambda a: a.max(1)),
    "means": (_means((2, 7, 7, 96)), lambda a: a.astype(np.float64).mean((1, 2)) + 1),
    "means of 7 channels": (
        _means((3, 6, 11, 7)),
        lambda a: a.astype(np.float64).mean((1, 2)) + 1,
    ),
    "squares": (
        _squares((3, 5, 50)),
        lambda a: (a.astype(np.float64) ** 2).sum(keepdims=True)[0, 0],
    ),
    "across": (_across((2, 33, 37)), lambda a: a.min(1)),
}
"""By name, with what they compute."""
