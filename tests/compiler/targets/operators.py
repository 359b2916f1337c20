"""Operators in no list, each with a user's own schedule and numpy's result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vdla.compiler.targets.vdla.build import build
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, alu_imm, gemm
from vdla.compiler.te import (
    IterVar,
    Schedule,
    Stage,
    Tensor,
    all_of,
    compute,
    create_schedule,
    max_over,
    maximum,
    min_over,
    minimum,
    placeholder,
    reduce_axis,
    select,
    sum_over,
)
from vdla.config import Config
from vdla.isa import AluOp
from vdla.sim import functional
from vdla.sim.dependence import check

__all__ = ["OPERATORS", "Case", "Window", "convolve", "run"]


@dataclass(frozen=True)
class Case:
    """A schedule with the values of its inputs and of its result."""

    schedule: Schedule
    inputs: dict[Tensor, np.ndarray]
    result: Tensor
    expected: np.ndarray


def run(case: Case, config: Config) -> np.ndarray:
    """Compile, check for races, and run on the functional model."""
    operator = build(case.schedule, [*case.inputs, case.result], config)
    memory = operator.memory(case.inputs)
    findings = check(operator.program, memory)
    assert not findings, "\n".join(str(finding) for finding in findings[:3])
    functional.run(operator.program, memory)
    return operator.read(memory, case.result)


def _int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _wide(x: Tensor, name: str) -> Tensor:
    return compute(x.shape, lambda *i: x[i].astype("int32"), name)


def _narrow(x: Tensor) -> Tensor:
    return compute(x.shape, lambda *i: x[i].astype("int8"), "result")


def _loads(s: Schedule, *tensors: Tensor, scope: str = Scope.ACC) -> None:
    for tensor in tensors:
        s[tensor].set_scope(scope)
        s[tensor].pragma(s[tensor].leaves[0], "dma_copy")


def _tiles(
    s: Schedule, result: Tensor, stages: list[Tensor], factor: int, threads: int
) -> tuple[Stage, IterVar]:
    """Split the result's first loop and compute everything else inside, in virtual threads."""
    out = s[result]
    outer, inner = out.split(out.leaves[0], factor=factor)
    if threads > 1:
        outer, thread = out.split(outer, factor=threads)
        out.bind(thread, "vthread")
        outer = thread
    out.pragma(inner, "dma_copy")
    for tensor in stages:
        s[tensor].compute_at(out, outer)
    return out, outer


def clipped_sum(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """``min(max(a * 3 + b, 0), 100)``."""
    n = int(rng.integers(1, 40))
    shape = (n, config.batch, config.block_out)
    a, b = placeholder(shape, "int8", "a"), placeholder(shape, "int8", "b")
    aw, bw = _wide(a, "a.wide"), _wide(b, "b.wide")
    scaled = compute(shape, lambda *i: aw[i] * 3, "scaled")
    total = compute(shape, lambda *i: scaled[i] + bw[i], "total")
    low = compute(shape, lambda *i: maximum(total[i], 0), "low")
    high = compute(shape, lambda *i: minimum(low[i], 100), "high")
    result = _narrow(high)
    s = create_schedule(result)
    _tiles(s, result, [aw, bw, scaled, total, low, high], int(rng.integers(1, 9)), threads)
    _loads(s, aw, bw)
    for tensor, intrin in (
        (scaled, alu_imm(config, AluOp.MUL)),
        (total, alu(config, AluOp.ADD)),
        (low, alu_imm(config, AluOp.MAX)),
        (high, alu_imm(config, AluOp.MIN)),
    ):
        s[tensor].set_scope(Scope.ACC)
        s[tensor].tensorize(s[tensor].leaves[1], intrin)
    x, y = _int8(rng, *shape), _int8(rng, *shape)
    expected = np.clip(x.astype(np.int32) * 3 + y, 0, 100).astype(np.int8)
    return Case(s, {a: x, b: y}, result, expected)


def kept_operand(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """An intermediate that a later stage needs unchanged, so that it must be moved first."""
    n = int(rng.integers(1, 30))
    shape = (n, config.batch, config.block_out)
    a = placeholder(shape, "int8", "a")
    wide = _wide(a, "wide")
    half = compute(shape, lambda *i: wide[i] >> 1, "half")
    least = compute(shape, lambda *i: minimum(half[i], 20), "least")
    total = compute(shape, lambda *i: half[i] + least[i], "total")
    result = _narrow(total)
    s = create_schedule(result)
    _tiles(s, result, [wide, half, least, total], int(rng.integers(1, 7)), threads)
    _loads(s, wide)
    for tensor, intrin in (
        (half, alu_imm(config, AluOp.SHR)),
        (least, alu_imm(config, AluOp.MIN)),
        (total, alu(config, AluOp.ADD)),
    ):
        s[tensor].set_scope(Scope.ACC)
        s[tensor].tensorize(s[tensor].leaves[1], intrin)
    x = _int8(rng, *shape)
    halved = x.astype(np.int32) >> 1
    expected = np.clip(halved + np.minimum(halved, 20), -128, 127).astype(np.int8)
    return Case(s, {a: x}, result, expected)


def operand_read_twice(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """An operation on an entry and itself: nothing else needs the entry, so it works in place."""
    shape = (int(rng.integers(1, 30)), config.batch, config.block_out)
    a = placeholder(shape, "int8", "a")
    wide = _wide(a, "wide")
    square = compute(shape, lambda *i: wide[i] * wide[i], "square")
    result = _narrow(square)
    s = create_schedule(result)
    _tiles(s, result, [wide, square], int(rng.integers(1, 7)), threads)
    _loads(s, wide)
    for tensor in (wide, square):
        s[tensor].set_scope(Scope.ACC)
    s[square].tensorize(s[square].leaves[1], alu(config, AluOp.MUL))
    x = _int8(rng, *shape)
    return Case(s, {a: x}, result, np.minimum(x.astype(np.int32) ** 2, 127).astype(np.int8))


def dense(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """A product of blocks, a shift and a bias that lies in memory as int32."""
    n, m, k = (int(rng.integers(1, 6)) for _ in range(3))
    b, bi, bo = config.batch, config.block_in, config.block_out
    data = placeholder((n, k, b, bi), "int8", "data")
    weights = placeholder((m, k, bo, bi), "int8", "weights")
    bias = placeholder((m, b, bo), "int32", "bias")
    rk, ri = reduce_axis(k, "k"), reduce_axis(bi, "i")
    shape = (m, n, b, bo)
    acc = compute(
        shape,
        lambda mm, nn, bb, oo: sum_over(
            data[nn, rk, bb, ri].astype("int32") * weights[mm, rk, oo, ri].astype("int32"),
            (rk, ri),
        ),
        "acc",
    )
    shifted = compute(shape, lambda *i: acc[i] >> 5, "shifted")
    biased = compute(shape, lambda mm, nn, bb, oo: shifted[mm, nn, bb, oo] + bias[mm, bb, oo], "b")
    result = _narrow(biased)
    s = create_schedule(result)
    dbuf = s.cache_read(data, Scope.INP, [acc])
    wbuf = s.cache_read(weights, Scope.WGT, [acc])
    bbuf = s.cache_read(bias, Scope.ACC, [biased])
    out, at = _tiles(s, result, [acc, shifted, biased], int(rng.integers(1, 4)), threads)
    for tensor in (acc, shifted, biased):
        s[tensor].set_scope(Scope.ACC)
    product = s[acc]
    mm, nn, bb, oo, *_ = product.leaves
    ko, ki = product.split(rk, factor=int(rng.integers(1, 4)))
    product.reorder(ko, mm, nn, ki, bb, oo, ri)
    product.tensorize(bb, gemm(config))
    for tensor, scope in ((dbuf, Scope.INP), (wbuf, Scope.WGT)):
        s[tensor].compute_at(product, ko)
        _loads(s, tensor, scope=scope)
    if rng.random() < 0.5:
        s[bbuf].compute_at(out, at)
    _loads(s, bbuf)
    s[shifted].tensorize(s[shifted].leaves[2], alu_imm(config, AluOp.SHR))
    s[biased].tensorize(s[biased].leaves[2], alu(config, AluOp.ADD))
    x, w = _int8(rng, n, k, b, bi), _int8(rng, m, k, bo, bi)
    c = rng.integers(-100, 100, (m, b, bo)).astype(np.int32)
    sums = np.einsum("nkbi,mkoi->mnbo", x.astype(np.int32), w.astype(np.int32))
    expected = np.clip((sums >> 5) + c[:, None], -128, 127).astype(np.int8)
    return Case(s, {data: x, weights: w, bias: c}, result, expected)


def window_max(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """The greatest value of each window of a padded image."""
    rows, columns = int(rng.integers(2, 7)), int(rng.integers(2, 7))
    size, step = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    tail = (config.batch, config.block_out)
    data = placeholder((rows, columns, *tail), "int8", "data")
    high, wide = rows + 2, columns + 2
    pad = compute(
        (high, wide, *tail),
        lambda y, x, b, o: select(
            all_of(y.ge(1), y.lt(rows + 1), x.ge(1), x.lt(columns + 1)),
            data[y - 1, x - 1, b, o].astype("int32"),
            -128,
        ),
        "pad",
    )
    ky, kx = reduce_axis(size, "ky"), reduce_axis(size, "kx")
    shape = ((high - size) // step + 1, (wide - size) // step + 1, *tail)
    best = compute(
        shape,
        lambda y, x, b, o: max_over(pad[y * step + ky, x * step + kx, b, o], (ky, kx)),
        "best",
    )
    result = _narrow(best)
    s = create_schedule(result)
    _tiles(s, result, [pad, best], int(rng.integers(1, 4)), threads)
    _loads(s, pad)
    s[best].set_scope(Scope.ACC)
    y, x, b, o, *_ = s[best].leaves
    s[best].reorder(y, x, ky, kx, b, o)
    s[best].tensorize(b, alu(config, AluOp.MAX))
    values = _int8(rng, rows, columns, *tail)
    padded = np.full((high, wide, *tail), -128, np.int8)
    padded[1:-1, 1:-1] = values
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (0, 1))
    expected = windows[::step, ::step].max((-1, -2))
    return Case(s, {data: values}, result, expected)


def column_reduction(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """A minimum or a sum over int32 entries, whose start no immediate holds."""
    n, k = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    tail = (config.batch, config.block_out)
    data = placeholder((k, n, *tail), "int32", "data")
    rk = reduce_axis(k, "k")
    summed = bool(rng.random() < 0.5)
    reduce = sum_over if summed else min_over
    copy = compute((k, n, *tail), lambda *i: data[i], "copy")
    reduced = compute((n, *tail), lambda i, b, o: reduce(copy[rk, i, b, o], rk), "reduced")
    shifted = compute((n, *tail), lambda *i: reduced[i] >> 24, "shifted")
    result = _narrow(shifted)
    s = create_schedule(result)
    _tiles(s, result, [copy, reduced, shifted], int(rng.integers(1, 4)), threads)
    _loads(s, copy)
    for tensor in (reduced, shifted):
        s[tensor].set_scope(Scope.ACC)
    i, b, o, r = s[reduced].leaves
    order = (r, i, b, o) if rng.random() < 0.5 else (i, r, b, o)
    s[reduced].reorder(*order)
    s[reduced].tensorize(b, alu(config, AluOp.ADD if summed else AluOp.MIN))
    s[shifted].tensorize(s[shifted].leaves[1], alu_imm(config, AluOp.SHR))
    low, high = (-(1 << 31), 1 << 31) if summed else (1 << 30, 1 << 31)
    x = rng.integers(low, high, (k, n, *tail)).astype(np.int32)
    values = x.sum(0, dtype=np.int32) if summed else x.min(0)
    return Case(s, {data: x}, result, np.clip(values >> 24, -128, 127).astype(np.int8))


def wide_padding(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """Padding wider than a load's fields, on every side."""
    rows, columns = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    top, left, bottom, right = (int(v) for v in rng.integers(0, 20, 4))
    tail = (config.batch, config.block_out)
    data = placeholder((rows, columns, *tail), "int8", "data")
    shape = (rows + top + bottom, columns + left + right, *tail)
    fill = int(rng.integers(-100, 100))
    pad = compute(
        shape,
        lambda y, x, b, o: select(
            all_of(y.ge(top), y.lt(top + rows), x.ge(left), x.lt(left + columns)),
            data[y - top, x - left, b, o].astype("int32"),
            fill,
        ),
        "pad",
    )
    more = compute(shape, lambda *i: pad[i] + 1, "more")
    result = _narrow(more)
    s = create_schedule(result)
    _tiles(s, result, [pad, more], int(rng.integers(1, 6)), threads)
    _loads(s, pad)
    s[more].set_scope(Scope.ACC)
    s[more].tensorize(s[more].leaves[2], alu_imm(config, AluOp.ADD))
    x = _int8(rng, rows, columns, *tail)
    expected = np.full(shape, fill, np.int32)
    expected[top : top + rows, left : left + columns] = x
    return Case(s, {data: x}, result, np.clip(expected + 1, -128, 127).astype(np.int8))


def transposed(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """Blocks that change places, read and written with strides, through partial tiles."""
    n, m = int(rng.integers(1, 12)), int(rng.integers(1, 12))
    tail = (config.batch, config.block_out)
    a = placeholder((m, n, *tail), "int8", "a")
    b = placeholder((n, m, *tail), "int8", "b")
    aw, bw = _wide(a, "a.wide"), _wide(b, "b.wide")
    total = compute(
        (n, m, *tail), lambda i, j, p, o: maximum(bw[i, j, p, o], aw[j, i, p, o]), "total"
    )
    result = _narrow(total)
    s = create_schedule(result)
    out = s[result]
    y, x, *_ = out.leaves
    y, x, yi, xi = out.tile(y, x, int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    at = x
    if threads > 1:
        x, at = out.split(x, factor=threads)
        out.bind(at, "vthread")
    out.pragma(yi, "dma_copy")
    for tensor in (aw, bw, total):
        s[tensor].compute_at(out, at)
    _loads(s, aw, bw)
    s[total].set_scope(Scope.ACC)
    s[total].tensorize(s[total].leaves[2], alu(config, AluOp.MAX))
    p, q = _int8(rng, m, n, *tail), _int8(rng, n, m, *tail)
    return Case(s, {a: p, b: q}, result, np.maximum(p.transpose(1, 0, 2, 3), q))


@dataclass(frozen=True)
class Window:
    """Sizes of a convolution: blocks of channels, image, kernel, stride, dilation, padding."""

    inputs: int
    outputs: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: int = 1
    dilation: int = 1
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)


def convolve(
    w: Window, config: Config, threads: int, rng: np.random.Generator, tile: tuple[int, int, int]
) -> Case:
    """A convolution padded with -3, shifted and clipped; the threads share out the rows.

    The tile counts blocks of output channels, rows, and blocks of input channels a load.
    """
    (ky, kx), step, gap = w.kernel, w.stride, w.dilation
    top, bottom, left, right = w.padding
    b, bi, bo = config.batch, config.block_in, config.block_out
    data = placeholder((w.inputs, w.height, w.width, b, bi), "int8", "data")
    weights = placeholder((w.outputs, w.inputs, ky, kx, bo, bi), "int8", "weights")
    high, wide = w.height + top + bottom, w.width + left + right
    pad = compute(
        (w.inputs, high, wide, b, bi),
        lambda c, y, x, p, q: select(
            all_of(y.ge(top), y.lt(top + w.height), x.ge(left), x.lt(left + w.width)),
            data[c, y - top, x - left, p, q],
            -3,
        ),
        "pad",
    )
    rc, ry, rx, ri = (
        reduce_axis(n, name) for n, name in ((w.inputs, "c"), (ky, "ky"), (kx, "kx"), (bi, "i"))
    )
    rows, columns = (high - gap * (ky - 1) - 1) // step + 1, (wide - gap * (kx - 1) - 1) // step + 1
    acc = compute(
        (w.outputs, rows, columns, b, bo),
        lambda k, y, x, p, o: sum_over(
            pad[rc, y * step + ry * gap, x * step + rx * gap, p, ri].astype("int32")
            * weights[k, rc, ry, rx, o, ri].astype("int32"),
            (rc, ry, rx, ri),
        ),
        "acc",
    )
    shifted = compute(acc.shape, lambda *at: acc[at] >> 6, "shifted")
    result = _narrow(shifted)
    s = create_schedule(result)
    buffer = s.cache_read(weights, Scope.WGT, [acc])
    out = s[result]
    k, y, *_ = out.leaves
    k, k_in = out.split(k, factor=tile[0])
    y, y_in = out.split(y, factor=tile[1])
    out.reorder(k, y, k_in, y_in)
    at = y
    if threads > 1:
        y, at = out.split(y, factor=threads)
        out.bind(at, "vthread")
    out.pragma(k_in, "dma_copy")
    for tensor in (acc, shifted):
        s[tensor].set_scope(Scope.ACC)
        s[tensor].compute_at(out, at)
    product = s[acc]
    ak, ay, ax, ab, ao, *_ = product.leaves
    c_out, c_in = product.split(rc, factor=tile[2])
    product.reorder(c_out, ak, ay, ax, c_in, ry, rx, ab, ao, ri)
    product.tensorize(ab, gemm(config))
    for tensor, scope in ((pad, Scope.INP), (buffer, Scope.WGT)):
        s[tensor].compute_at(product, c_out)
        _loads(s, tensor, scope=scope)
    s[shifted].tensorize(s[shifted].leaves[3], alu_imm(config, AluOp.SHR))
    x, v = _int8(rng, *data.shape), _int8(rng, *weights.shape)
    padded = np.full(pad.shape, -3, np.int32)
    padded[:, top : top + w.height, left : left + w.width] = x
    sums = np.zeros(acc.shape, np.int32)
    for j in range(ky):
        for i in range(kx):
            part = padded[:, j * gap :: step, i * gap :: step][:, :rows, :columns]
            sums += np.einsum("cyxpi,kcoi->kyxpo", part, v[:, :, j, i].astype(np.int32))
    return Case(s, {data: x, weights: v}, result, np.clip(sums >> 6, -128, 127).astype(np.int8))


def convolution(rng: np.random.Generator, config: Config, threads: int) -> Case:
    """Any kernel, stride, dilation and padding, in tiles that need not divide."""
    kernel = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    window = Window(
        inputs=int(rng.integers(1, 4)),
        outputs=int(rng.integers(1, 4)),
        height=int(rng.integers(5, 9)),
        width=int(rng.integers(5, 8)),
        kernel=kernel,
        stride=int(rng.integers(1, 4)),
        dilation=int(rng.integers(1, 3)),
        padding=tuple(int(v) for v in rng.integers(0, 3, 4)),
    )
    limit = 1 if config.name == "tiny" else 2
    tile = tuple(int(v) for v in rng.integers(1, limit + 1, 3))
    return convolve(window, config, threads, rng, tile)


OPERATORS: dict[str, Callable[[np.random.Generator, Config, int], Case]] = {
    f.__name__: f
    for f in (
        clipped_sum,
        convolution,
        kept_operand,
        dense,
        window_max,
        column_reduction,
        wide_padding,
        transposed,
        operand_read_twice,
    )
}
