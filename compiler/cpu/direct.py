"""Direct convolution: a tile of pixels and channels stays in registers for its whole reduction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.quantization import conv_params
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import (
    Expr,
    IterVar,
    Schedule,
    Stage,
    Tensor,
    all_of,
    reduce_axis,
    select,
    sum_over,
)
from vdla.compiler.te.expr import Real, as_expr

from .define.site import Array, Site
from .define.windows import accumulator, centred, finished
from .tiles import lanes_of, pixel_tile, reduction_block
from .tuned import Tuned, parallel, unroll_all

__all__ = ["direct_convolution", "pack_weights", "takes_direct"]

_UNROLLED = 4
"""Steps of the reduction whose loads may overlap the sums before them."""


def takes_direct(site: Site) -> bool:
    """Tell whether a node is a convolution, or a dense layer, of constant weights and one group."""
    if site.node.op not in ("conv2d", "dense") or site.value(1) is None:
        return False
    if site.node.op == "dense":
        return len(site.tensors[0].shape) == 2 and len(site.output.shape) == 2
    return site.tensors[1].shape[3] == site.tensors[0].shape[3]


def pack_weights(data: Array, block: int, lanes: int) -> Array:
    """Return weights OHWI as (O / lanes, I / block, H, W, block, lanes), with zeros at the end."""
    outputs, rows, columns, depth = data.shape
    groups = -(-outputs // lanes)
    full = np.zeros((groups * lanes, rows, columns, depth), data.dtype)
    full[:outputs] = data
    split = full.reshape(groups, lanes, rows, columns, depth // block, block)
    return np.ascontiguousarray(split.transpose(0, 4, 2, 3, 5, 1))


@dataclass(frozen=True)
class _Window:
    """How outputs reach into an image: strides, dilation and margins, rows first."""

    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]


def direct_convolution(site: Site, target: Target) -> Tuned:
    """Return a convolution over packed weights.

    The image is copied with its margin, its channels in blocks that the reduction walks through::

        packed[n, cb, y, x, ci] = x[n, y - top, x - left, block * cb + ci]
        sums[n, ob, y, x, l] = sum(packed[n, cb, sy * y + dy * i, sx * x + dx * j, ci]
                                   * weight[ob, cb, i, j, ci, l] for cb, i, j, ci)

    A dense layer is a convolution over rows of pixels, one an image.
    """
    x, given = site.input(0), site.value(1)
    assert given is not None
    dense = site.node.op == "dense"
    finish = finished(site, (1,) if dense else (1, 2, 3), 0)
    data = centred(site, given, 0) if site.quantized else given
    if dense:
        data = data.reshape(data.shape[0], 1, 1, data.shape[1])
        window = _Window((1, 1), (1, 1), ((0, 0), (0, 0)))
        batch, height, width = 1, 1, x.shape[0]
        pixel: Callable[..., Expr] = lambda n, h, w, c: x[w, c]  # noqa: E731
        shape: tuple[int, ...] = (1, 1, *x.shape)
    else:
        window = _Window(*(site.attrs[name] for name in ("strides", "dilation", "padding")))
        batch, height, width, _ = site.output.shape
        pixel, shape = (lambda *index: x[index]), x.shape
    _, rows, columns, depth = data.shape
    lanes, block = lanes_of(target), reduction_block(depth)
    weight = site.constant(pack_weights(data, block, lanes), site.tensors[1].name)
    image, copies = _packed(site, pixel, shape, block, window, once=rows == columns == 1)
    kind = accumulator(x.dtype)
    sizes = {"cb": depth // block, "i": rows, "j": columns, "ci": block}
    axes = cb, i, j, ci = tuple(reduce_axis(size, name) for name, size in sizes.items())
    (sy, sx), (dy, dx) = window.strides, window.dilation

    def total(n: Expr, ob: Expr, h: Expr, w: Expr, lane: Expr) -> Expr:
        element = image(n, cb, h * sy + i * dy, w * sx + j * dx, ci)
        return sum_over(element.astype(kind) * weight[ob, cb, i, j, ci, lane].astype(kind), axes)

    sums = site.compute((batch, weight.shape[0], height, width, lanes), total, "sums")

    def element(*index: Expr) -> Expr:
        channel = as_expr(index[-1])
        n, h, w = (0, 0, index[0]) if dense else index[:3]
        return finish(sums[n, channel // lanes, h, w, channel % lanes], channel)

    tile = pixel_tile(height, width, target)

    def schedule(s: Schedule, final: Tensor) -> None:
        out = s[final]
        *front, w, channel = out.axis
        group, lane = out.split(channel, factor=lanes)
        wo, wi = out.split(w, factor=tile.columns)
        inner = [wi]
        if not dense:
            ho, hi = out.split(front[1], factor=tile.rows)
            front, inner = [front[0], group, ho], [hi, wi]
        else:
            front = [group]
        out.reorder(*front, wo, *inner, lane)
        unroll_all(out, inner)
        out.vectorize(lane)
        parallel(out, front)
        _accumulate(s[sums], out, wo, block)
        for copy in copies:
            stage = s[copy]
            stage.vectorize(stage.axis[-1])
            parallel(stage, list(stage.axis[:3]))

    output = site.compute(site.output.shape, element)
    return Tuned(output, (sums, *copies), schedule)


def _accumulate(sums: Stage, out: Stage, at: IterVar, block: int) -> None:
    """Keep the sums of a tile in registers, some steps of the reduction unrolled."""
    sums.set_scope("register")
    sums.compute_at(out, at)
    *steps, ci = sums.reduce_axis
    if block > _UNROLLED and block % _UNROLLED == 0:
        many, few = sums.split(ci, factor=_UNROLLED)
        steps += [many, few]
        sums.unroll(few)
    else:
        steps.append(ci)
        if block <= _UNROLLED:
            sums.unroll(ci)
    sums.reorder(*steps, *sums.axis)
    unroll_all(sums, sums.axis[:-1])
    sums.vectorize(sums.axis[-1])


def _packed(
    site: Site,
    pixel: Callable[..., Expr],
    shape: tuple[int, ...],
    block: int,
    window: _Window,
    *,
    once: bool,
) -> tuple[Callable[..., Expr], tuple[Tensor, ...]]:
    """Return the image as a function of (n, cb, y, x, ci), and the copy that it reads, if any.

    What each output reads once, and has no margin, is read where it lies.
    """
    batch, height, width, channels = shape
    (top, bottom), (left, right) = window.padding
    margin = bool(top or bottom or left or right)
    if once and not margin:
        return (lambda n, cb, h, w, ci: pixel(n, h, w, cb * block + ci)), ()
    zero = conv_params(site.graph, site.node).input_zero_point if site.quantized else 0
    dtype = site.input(0).dtype
    fill = Real(0.0, dtype) if dtype.startswith("float") else zero

    def copied(n: Expr, cb: Expr, h: Expr, w: Expr, ci: Expr) -> Expr:
        value = pixel(n, h - top, w - left, cb * block + ci)
        sides = ((h, top, bottom, height), (w, left, right, width))
        inside = [at.ge(before) for at, before, _, _ in sides if before]
        inside += [at.lt(before + size) for at, before, after, size in sides if after]
        return select(all_of(*inside), value, fill) if inside else value

    full = (batch, channels // block, top + height + bottom, left + width + right, block)
    packed = site.compute(full, copied, "packed")
    return (lambda *index: packed[index]), (packed,)
