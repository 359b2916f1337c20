"""Schedules of operators that are in no list, bound by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.te import (
    Schedule,
    Tensor,
    compute,
    create_schedule,
    max_over,
    placeholder,
    reduce_axis,
)
from vdla.compiler.te.stage import Stage

__all__ = [
    "CASES",
    "Made",
    "filled",
    "moving_maximum",
    "moving_pieces",
    "rows_shared",
    "transposed",
]

Array = np.ndarray
Made = tuple[Schedule, list[Tensor]]
"""A schedule, and the tensors of its kernel, the output last."""


def filled(stage: Stage, across: int, down: int = 1) -> None:
    """Share out a tile's elements among a block's threads, in their order."""
    element, *rest = stage.axis
    for axis in rest:
        element = stage.fuse(element, axis)
    _, thread = stage.split(element, factor=across * down)
    if down > 1:
        row, thread = stage.split(thread, factor=across)
        stage.bind(row, "threadIdx.y")
    stage.bind(thread, "threadIdx.x")


def transposed(rows: int, columns: int, tile: int) -> Made:
    """``out[i, j] = 2 * a[j, i]``, read along one row of a tile and written along another."""
    a = placeholder((columns, rows), "float32", "a")
    out = compute((rows, columns), lambda i, j: a[j, i] * 2, "out")
    s = create_schedule(out)
    i, j = s[out].axis
    io, jo, ii, ji = s[out].tile(i, j, tile, tile)
    for axis, thread in zip(
        (io, jo, ii, ji), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"), strict=True
    ):
        s[out].bind(axis, thread)
    shared = s[s.cache_read(a, "shared", [out])]
    shared.compute_at(s[out], ji)
    shared.whole_tiles()
    filled(shared, tile, tile)
    return s, [a, out]


def moving_maximum(size: int, window: int, threads: int) -> Made:
    """``out[i] = max(a[i : i + window])``: neighbours read the same elements."""
    a = placeholder((size + window - 1,), "float32", "a")
    k = reduce_axis(window, "k")
    out = compute((size,), lambda i: max_over(a[i + k], k), "out")
    s = create_schedule(out)
    most = s[s.cache_write(out, "register")]
    block, thread = s[out].split(s[out].axis[0], factor=threads)
    s[out].bind(block, "blockIdx.x")
    s[out].bind(thread, "threadIdx.x")
    most.compute_at(s[out], thread)
    most.whole_tiles()
    shared = s[s.cache_read(a, "shared", [most.tensor])]
    shared.compute_at(s[out], thread)
    shared.whole_tiles()
    filled(shared, threads)
    return s, [a, out]


def moving_pieces(size: int, window: int, threads: int, pieces: int) -> Made:
    """``out[i] = max(a[i : i + window])``, pairs of elements of a thread lying apart."""
    a = placeholder((size + window - 1,), "float32", "a")
    k = reduce_axis(window, "k")
    out = compute((size,), lambda i: max_over(a[i + k], k), "out")
    s = create_schedule(out)
    most = s[s.cache_write(out, "register")]
    block, virtual = s[out].split(s[out].axis[0], factor=pieces * threads * 2)
    virtual, thread = s[out].split(virtual, factor=threads * 2)
    thread, own = s[out].split(thread, factor=2)
    s[out].bind(block, "blockIdx.x")
    s[out].bind(virtual, "vthread")
    s[out].bind(thread, "threadIdx.x")
    s[out].unroll(own)
    most.compute_at(s[out], thread)
    most.whole_tiles()
    most.reorder(k, *most.axis)
    most.unroll(most.axis[0])
    shared = s[s.cache_read(a, "shared", [most.tensor])]
    shared.compute_at(s[out], thread)
    shared.whole_tiles()
    filled(shared, threads)
    return s, [a, out]


def rows_shared(rows: int, columns: int, step: int) -> Made:
    """``out[i, j] = max(a[i, k] * b[k, j])``, ``step`` terms in shared memory at a time."""
    a = placeholder((rows, columns), "float32", "a")
    b = placeholder((columns, rows), "float32", "b")
    k = reduce_axis(columns, "k")
    out = compute((rows, rows), lambda i, j: max_over(a[i, k] * b[k, j], k), "out")
    s = create_schedule(out)
    most = s[s.cache_write(out, "register")]
    i, j = s[out].axis
    s[out].bind(i, "blockIdx.x")
    s[out].bind(j, "threadIdx.x")
    most.compute_at(s[out], j)
    outer, inner = most.split(k, factor=step)
    most.reorder(outer, inner, *most.axis)
    for tensor in (a, b):
        shared = s[s.cache_read(tensor, "shared", [most.tensor])]
        shared.compute_at(most, outer)
        shared.whole_tiles()
        filled(shared, rows)
    return s, [a, b, out]


def _transposed(a: Array) -> Array:
    return 2 * a.T


def _moving_maximum(a: Array) -> Array:
    return np.lib.stride_tricks.sliding_window_view(a, 5).max(-1)


def _rows(a: Array, b: Array) -> Array:
    return (a[:, :, None] * b[None]).max(1)


CASES: Mapping[str, tuple[Made, Callable[..., Array]]] = {
    "transposed": (transposed(37, 53, 8), _transposed),
    "transposed_divided": (transposed(16, 24, 8), _transposed),
    "moving_maximum": (moving_maximum(100, 5, 16), _moving_maximum),
    "moving_pieces": (moving_pieces(100, 5, 8, 3), _moving_maximum),
    "rows_shared": (rows_shared(6, 20, 8), _rows),
}
"""By name, with what they compute."""
