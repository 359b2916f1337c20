"""Tensor expressions with the numpy formula of each, for random schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vdla.compiler.te import (
    Tensor,
    all_of,
    compute,
    max_over,
    maximum,
    min_over,
    minimum,
    placeholder,
    reduce_axis,
    select,
    sum_over,
)

__all__ = ["EXPRESSIONS", "Expression"]


@dataclass(frozen=True)
class Expression:
    """Outputs, inputs with values, and what numpy computes for the outputs."""

    outputs: tuple[Tensor, ...]
    inputs: dict[Tensor, np.ndarray]
    expected: tuple[np.ndarray, ...]


def _size(rng: np.random.Generator, low: int = 1, high: int = 9) -> int:
    return int(rng.integers(low, high + 1))


def _int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _wide(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)


def matmul(rng: np.random.Generator) -> Expression:
    n, m, k = _size(rng), _size(rng), _size(rng)
    a, b = placeholder((n, k), "int8", "a"), placeholder((m, k), "int8", "b")
    r = reduce_axis(k, "k")
    c = compute(
        (n, m), lambda i, j: sum_over(a[i, r].astype("int32") * b[j, r].astype("int32"), r), "c"
    )
    out = compute((n, m), lambda i, j: minimum(maximum(c[i, j] >> 3, -100), 100), "out")
    x, y = _int8(rng, n, k), _int8(rng, m, k)
    product = x.astype(np.int32) @ y.T.astype(np.int32)
    return Expression((out,), {a: x, b: y}, (np.clip(product >> 3, -100, 100),))


def conv(rng: np.random.Generator) -> Expression:
    h, w, ci, co = _size(rng, 1, 7), _size(rng, 1, 7), _size(rng, 1, 3), _size(rng, 1, 3)
    ky, kx, sy, sx = (_size(rng, 1, 3) for _ in range(4))
    dy, dx = _size(rng, 1, 2), _size(rng, 1, 2)
    top, left = _size(rng, 0, 2), _size(rng, 0, 2)
    bottom = max(_size(rng, 0, 2), dy * (ky - 1) + 1 - h - top)
    right = max(_size(rng, 0, 2), dx * (kx - 1) + 1 - w - left)
    high, wide = h + top + bottom, w + left + right
    oh, ow = (high - dy * (ky - 1) - 1) // sy + 1, (wide - dx * (kx - 1) - 1) // sx + 1
    data, weights = placeholder((ci, h, w), "int8", "x"), placeholder((co, ci, ky, kx), "int8", "w")
    pad = compute(
        (ci, high, wide),
        lambda c, y, x: select(
            all_of(y.var.ge(top), y.var.lt(top + h), x.var.ge(left), x.var.lt(left + w)),
            data[c, y - top, x - left],
            -3,
        ),
        "pad",
    )
    rc, ry, rx = reduce_axis(ci, "rc"), reduce_axis(ky, "ry"), reduce_axis(kx, "rx")
    out = compute(
        (co, oh, ow),
        lambda o, y, x: sum_over(
            pad[rc, y * sy + ry * dy, x * sx + rx * dx].astype("int32")
            * weights[o, rc, ry, rx].astype("int32"),
            (rc, ry, rx),
        ),
        "out",
    )
    a, b = _int8(rng, ci, h, w), _int8(rng, co, ci, ky, kx)
    padded = np.full((ci, high, wide), -3, np.int32)
    padded[:, top : top + h, left : left + w] = a
    result = np.zeros((co, oh, ow), np.int32)
    for y in range(ky):
        for x in range(kx):
            window = padded[:, y * dy :: sy, x * dx :: sx][:, :oh, :ow]
            result += np.einsum("oc,chw->ohw", b[:, :, y, x].astype(np.int32), window)
    return Expression((out,), {data: a, weights: b}, (result,))


def pool(rng: np.random.Generator) -> Expression:
    h, w, k, s = _size(rng, 3, 8), _size(rng, 3, 8), _size(rng, 2, 3), _size(rng, 1, 2)
    high, wide = h + 2, w + 2
    oh, ow = (high - k) // s + 1, (wide - k) // s + 1
    data = placeholder((h, w), "int8", "x")
    doubled = compute((h, w), lambda y, x: data[y, x].astype("int32") * 2, "doubled")
    pad = compute(
        (high, wide),
        lambda y, x: select(
            all_of(y.var.ge(1), y.var.lt(h + 1), x.var.ge(1), x.var.lt(w + 1)),
            doubled[y - 1, x - 1],
            -300,
        ),
        "pad",
    )
    ry, rx = reduce_axis(k, "ry"), reduce_axis(k, "rx")
    out = compute((oh, ow), lambda y, x: max_over(pad[y * s + ry, x * s + rx], (ry, rx)), "out")
    a = _int8(rng, h, w)
    padded = np.full((high, wide), -300, np.int32)
    padded[1:-1, 1:-1] = a.astype(np.int32) * 2
    result = np.lib.stride_tricks.sliding_window_view(padded, (k, k))[::s, ::s].max((2, 3))
    return Expression((out,), {data: a}, (result,))


def chain(rng: np.random.Generator) -> Expression:
    """Several consumers of one intermediate, and wrapping 32-bit arithmetic."""
    n, m = _size(rng), _size(rng)
    a, b = placeholder((n, m), "int32", "a"), placeholder((n, m), "int32", "b")
    u = compute((n, m), lambda i, j: a[i, j] * 3 + b[i, j], "u")
    v = compute((n, m), lambda i, j: maximum(u[i, j], b[i, j]), "v")
    w = compute((n, m), lambda i, j: u[i, j] - v[i, j], "w")
    out = compute((n, m), lambda i, j: w[i, j] + v[i, j] * u[i, j], "out")
    x, y = _wide(rng, n, m), _wide(rng, n, m)
    p = x * np.int32(3) + y
    q = np.maximum(p, y)
    return Expression((out,), {a: x, b: y}, ((p - q) + q * p,))


def transposed(rng: np.random.Generator) -> Expression:
    n, m = _size(rng), _size(rng)
    a, b = placeholder((m, n), "int32", "a"), placeholder((n, m), "int32", "b")
    t = compute((n, m), lambda i, j: a[j, i] + 7, "t")
    u = compute((m, n), lambda i, j: t[j, i] * b[j, i], "u")
    out = compute((n, m), lambda i, j: u[j, i] + t[i, j], "out")
    x, y = _wide(rng, m, n), _wide(rng, n, m)
    p = x.T + np.int32(7)
    return Expression((out,), {a: x, b: y}, (p * y + p,))


def normalised(rng: np.random.Generator) -> Expression:
    """Reductions that feed element-wise stages and other reductions."""
    n, m = _size(rng), _size(rng)
    a = placeholder((n, m), "int8", "a")
    k, r = reduce_axis(m, "k"), reduce_axis(m, "r")
    top = compute((n,), lambda i: max_over(a[i, k].astype("int32"), k), "top")
    d = compute((n, m), lambda i, j: top[i] - a[i, j].astype("int32"), "d")
    total = compute((n,), lambda i: sum_over(d[i, r], r), "total")
    out = compute((n, m), lambda i, j: d[i, j] * total[i], "out")
    x = _int8(rng, n, m).astype(np.int32)
    diff = x.max(1, keepdims=True) - x
    return Expression(
        (out,), {a: x.astype(np.int8)}, ((diff * diff.sum(1, keepdims=True)).astype(np.int32),)
    )


def stencil(rng: np.random.Generator) -> Expression:
    n, m = _size(rng, 3, 12), _size(rng, 1, 6)
    a = placeholder((n, m), "int32", "a")
    b = compute((n, m), lambda i, j: a[i, j] * 5, "b")
    c = compute((n - 1, m), lambda i, j: b[i, j] + b[i + 1, j], "c")
    out = compute((n - 2, m), lambda i, j: c[i + 1, j] - c[i, j] * b[i + 2, j], "out")
    x = _wide(rng, n, m)
    y = x * np.int32(5)
    z = y[:-1] + y[1:]
    return Expression((out,), {a: x}, (z[1:] - z[:-1] * y[2:],))


def reshaped(rng: np.random.Generator) -> Expression:
    n, m = _size(rng, 1, 6), _size(rng, 1, 6)
    a = placeholder((n, m), "int32", "a")
    b = compute((n, m), lambda i, j: a[i, j] + 1, "b")
    flat = compute((n * m,), lambda i: b[i // m, i % m] * 2, "flat")
    out = compute((n * m,), lambda i: flat[n * m - 1 - i] + flat[i], "out")
    x = _wide(rng, n, m)
    y = (x + np.int32(1)).ravel() * np.int32(2)
    return Expression((out,), {a: x}, (y[::-1] + y,))


def two_outputs(rng: np.random.Generator) -> Expression:
    n, m = _size(rng), _size(rng)
    a = placeholder((n, m), "int8", "a")
    k = reduce_axis(n, "k")
    b = compute((n, m), lambda i, j: a[i, j].astype("int32") * -1, "b")
    low = compute((m,), lambda j: min_over(b[k, j], k), "low")
    out = compute((n, m), lambda i, j: b[i, j] - low[j], "out")
    x = _int8(rng, n, m).astype(np.int32)
    return Expression((low, out), {a: x.astype(np.int8)}, (-x.max(0), -x + x.max(0)))


def cube(rng: np.random.Generator) -> Expression:
    """Three axes and a reduction over the middle one, through a saturating conversion."""
    n, m, k = _size(rng, 1, 5), _size(rng, 1, 5), _size(rng, 1, 5)
    a = placeholder((n, k, m), "int32", "a")
    r = reduce_axis(k, "r")
    b = compute((n, k, m), lambda i, p, j: (a[i, p, j] >> 20).astype("int8"), "b")
    c = compute((n, m), lambda i, j: sum_over(b[i, r, j].astype("int32"), r), "c")
    out = compute((m, n, 2), lambda j, i, p: c[i, j] * (p + 1), "out")
    x = _wide(rng, n, k, m)
    y = np.clip(x >> 20, -128, 127).sum(1, dtype=np.int32)
    return Expression((out,), {a: x}, (np.stack([y.T, y.T * 2], -1).astype(np.int32),))


EXPRESSIONS: dict[str, Callable[[np.random.Generator], Expression]] = {
    f.__name__: f
    for f in (
        matmul,
        conv,
        pool,
        chain,
        transposed,
        normalised,
        stencil,
        reshaped,
        two_outputs,
        cube,
    )
}
