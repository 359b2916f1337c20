"""Convolutions: padding as a stage of its own, sums of products, and what follows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vdla.compiler.graph.quantization import conv_params
from vdla.compiler.te import (
    Expr,
    Tensor,
    all_of,
    pick,
    reduce_axis,
    select,
    sum_over,
)
from vdla.compiler.te.expr import ExprLike, Real, as_expr

from .arithmetic import clipped, requantize
from .site import Array, Site, wide_float

__all__ = [
    "Finish",
    "accumulator",
    "conv2d",
    "conv_transpose2d",
    "depthwise_conv2d",
    "finished",
    "outputs_of",
    "padded",
    "padded_images",
]

Pair = tuple[int, int]
Finish = Callable[[Expr, ExprLike], Expr]
"""From a sum of products and its channel to an element of the output."""


def padded(
    site: Site, x: Tensor, padding: Sequence[Pair], value: float, part: str = "pad"
) -> Tensor:
    """Return images (N, H, W, C) with a margin of `value`: x itself where there is none."""
    (top, bottom), (left, right) = padding
    if not (top or bottom or left or right):
        return x
    n, height, width, channels = x.shape
    fill = Real(float(value), x.dtype) if x.dtype.startswith("float") else int(value)

    def element(n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        inside = []
        for i, before, after, size in ((h, top, bottom, height), (w, left, right, width)):
            inside += [(i + 0).ge(before)] if before else []
            inside += [(i + 0).lt(before + size)] if after else []
        return select(all_of(*inside), x[n, h - top, w - left, c], fill)

    return site.compute((n, height + top + bottom, width + left + right, channels), element, part)


def accumulator(dtype: str) -> str:
    """Return the type that products of a dtype are added up in."""
    if dtype.startswith("float"):
        return wide_float(dtype)
    return dtype if np.dtype(dtype).itemsize >= 4 else "int32"


def conv2d(site: Site) -> Tensor:
    """Weights OHWI; I channels make a group."""
    x, (outputs, rows, columns, depth) = site.input(0), site.tensors[1].shape
    images, finish = padded_images(site), finished(site, (1, 2, 3), 0)
    weight = _weight(site, (1, 2, 3, 0), 0)
    each = outputs // (x.shape[3] // depth)
    (sy, sx), (dy, dx) = site.attrs["strides"], site.attrs["dilation"]
    kind = accumulator(x.dtype)
    i, j, k = (
        reduce_axis(extent, name)
        for extent, name in zip((rows, columns, depth), "ijk", strict=True)
    )

    def total(n: Expr, h: Expr, w: Expr, o: Expr) -> Expr:
        channel = k + 0 if each == outputs else o // each * depth + k
        element = images[n, h * sy + i * dy, w * sx + j * dx, channel].astype(kind)
        return sum_over(element * weight(i, j, k, o).astype(kind), (i, j, k))

    return outputs_of(site, site.compute(site.output.shape, total, "sums"), finish)


def depthwise_conv2d(site: Site) -> Tensor:
    """Weights 1HWC'; channel c makes outputs c * m and on."""
    x, (_, rows, columns, outputs) = site.input(0), site.tensors[1].shape
    images, finish = padded_images(site), finished(site, (0, 1, 2), 3)
    weight = _weight(site, (1, 2, 3, 0), 3)
    each = outputs // x.shape[3]
    (sy, sx), (dy, dx) = site.attrs["strides"], site.attrs["dilation"]
    kind = accumulator(x.dtype)
    i, j = reduce_axis(rows, "i"), reduce_axis(columns, "j")

    def total(n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        element = images[n, h * sy + i * dy, w * sx + j * dx, c // each].astype(kind)
        return sum_over(element * weight(i, j, c, 0).astype(kind), (i, j))

    return outputs_of(site, site.compute(site.output.shape, total, "sums"), finish)


def conv_transpose2d(site: Site) -> Tensor:
    """Weights OHWI: an output adds up the taps that reach it, and no other."""
    attrs, x = site.attrs, site.input(0)
    outputs, _, _, depth = site.tensors[1].shape
    zero = conv_params(site.graph, site.node).input_zero_point if site.quantized else 0
    finish = finished(site, (), 0)
    weight = _weight(site, (1, 2, 3, 0), 0)
    each = outputs // attrs["groups"]
    kind = accumulator(x.dtype)
    reach = [
        _reaching(
            site.output.shape[1 + a],
            x.shape[1 + a],
            site.tensors[1].shape[1 + a],
            attrs["strides"][a],
            attrs["dilation"][a],
            attrs["padding"][a][0],
        )
        for a in range(2)
    ]

    def total(n: Expr, h: Expr, w: Expr, o: Expr) -> Expr:
        axes, taps, places = [], [], []
        for at, (counts, tap, place, most), name in zip((h, w), reach, "ij", strict=True):
            axis = reduce_axis(pick(counts, at), name)
            axes.append(axis)
            taps.append(pick(tap, as_expr(at) * most + axis))
            places.append(pick(place, as_expr(at) * most + axis))
        k = reduce_axis(depth, "k")
        channel = k + 0 if each == outputs else o // each * depth + k
        element = x[n, places[0], places[1], channel].astype(kind)
        element = element - zero if zero else element
        return sum_over(element * weight(*taps, k, o).astype(kind), (*axes, k))

    return outputs_of(site, site.compute(site.output.shape, total, "sums"), finish)


def _reaching(
    out: int, size: int, window: int, stride: int, dilation: int, crop: int
) -> tuple[list[int], list[int], list[int], int]:
    """Return, of each output place, how many taps reach it, which, and from where in the input.

    The second and third are tables with a row of as many as reach any place: the last result.
    """
    rows = []
    for at in range(out):
        steps = [(tap, at + crop - tap * dilation) for tap in range(window)]
        rows.append(
            [(t, d // stride) for t, d in steps if d % stride == 0 and 0 <= d // stride < size]
        )
    most = max(1, *(len(row) for row in rows))
    full = [row + [(0, 0)] * (most - len(row)) for row in rows]
    counts = [len(row) for row in rows]
    taps, places = ([pair[k] for row in full for pair in row] for k in range(2))
    return counts, taps, places, most


def padded_images(site: Site) -> Tensor:
    """Return the input with a margin of what stands for zero."""
    zero = conv_params(site.graph, site.node).input_zero_point if site.quantized else 0
    return padded(site, site.input(0), site.attrs["padding"], zero)


def _weight(site: Site, order: Sequence[int], channel: int) -> Callable[..., Expr]:
    """Return a function of a weight's index in another order of dimensions.

    A constant lies in that order, less its zero point.
    """
    data = site.value(1)
    if data is None:
        held = site.input(1)
        back = [order.index(k) for k in range(len(order))]
        return lambda *index: held[tuple(index[k] for k in back)]
    if site.quantized:
        data = centred(site, data, channel)
    made = site.constant(data.transpose(order), site.tensors[1].name)
    return lambda *index: made[index]


def centred(site: Site, data: Array, channel: int) -> Array:
    """Return weights less their zero point, in 8 bits where they fit and in 16 elsewhere."""
    shape = [1] * data.ndim
    shape[channel] = -1
    offset = conv_params(site.graph, site.node).weight_zero_point.reshape(shape)
    wide = data.astype(np.int16) - offset.astype(np.int16)
    narrow = wide.astype(np.int8)
    return narrow if (narrow == wide).all() else wide


def finished(site: Site, folded: Sequence[int], channel: int, shift: int = 0) -> Finish:
    """Return what makes outputs of sums: bias, scale, clip.

    Parameters
    ----------
    folded : sequence of int
        Dimensions of the weight that every sum runs over whole: the zero point of the input, which
        its margin holds too, is then taken off with the bias. None where it is off already.
    channel : int
        Dimension of the weight that the outputs' channels run along.
    shift : int
        What the sums' inputs are higher by than the graph's.
    """
    clip = site.attrs["clip"]
    if not site.quantized:
        if len(site.tensors) < 3:
            return lambda total, _: clipped(total, clip, site.dtype)
        bias = site.input(2)
        if site.dtype.startswith("float"):
            return lambda total, c: clipped(total + bias[c].astype(total.dtype), clip, site.dtype)
        return lambda total, c: clipped(
            total.wrap("int64") + bias[c].wrap("int64"), clip, site.dtype
        )
    params = conv_params(site.graph, site.node)
    offset = params.bias.astype(np.int64)
    if folded:
        data = site.value(1)
        assert data is not None
        weight = centred(site, data, channel).astype(np.int64)
        offset = offset - (params.input_zero_point + shift) * weight.sum(axis=tuple(folded))
    # The sum with its bias fits 32 bits, whatever happens to its parts.
    held = site.constant(offset.astype(np.int32), site.named("bias"))
    rescale = requantize(site, params, params.output_zero_point, clip)
    return lambda total, c: rescale(total + held[c], c)


def outputs_of(site: Site, sums: Tensor, finish: Finish) -> Tensor:
    """Return the output's elements: those of the sums, finished by their channel."""
    return site.compute(sums.shape, lambda *i: finish(sums[i], as_expr(i[-1])))
