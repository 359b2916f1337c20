"""Operators that move elements: each output index says which input index it reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vdla.compiler.graph.quantization import concat_params
from vdla.compiler.te import Expr, Tensor, all_of, maximum, minimum, select
from vdla.compiler.te.expr import Const, ExprLike, Real, as_expr

from .arithmetic import rescaler, saturated
from .indexing import broadcast, chosen, flattened, regrouped
from .site import Site

__all__ = [
    "concat",
    "expand",
    "gather",
    "pad",
    "reshape",
    "slice_",
    "space_to_depth",
    "transpose",
    "unfold",
]


def concat(site: Site) -> Tensor:
    """Quantized inputs are brought to the output's scale."""
    axis, inputs = site.attrs["axis"], [site.input(k) for k in range(len(site.tensors))]
    params = concat_params(site.graph, site.node) if site.quantized else None

    def brought(k: int, value: Expr) -> Expr:
        if params is None or params.unchanged[k]:
            return value
        m, shift = params.input_multiplier[k], params.input_right_shift[k]
        scale = rescaler(site, m, shift, params.rounding)
        centred = value.astype("int32") - params.input_zero_point[k]
        return saturated(scale(centred, 0), params.output_zero_point, params.clip, site.dtype)

    def element(*index: ExprLike) -> Expr:
        ends = np.cumsum([x.shape[axis] for x in inputs])
        result: Expr | None = None
        for k in range(len(inputs) - 1, -1, -1):
            start = int(ends[k]) - inputs[k].shape[axis]
            place = (*index[:axis], as_expr(index[axis]) - start, *index[axis + 1 :])
            value = brought(k, inputs[k][place])
            inside = as_expr(index[axis]).lt(int(ends[k]))
            result = value if result is None else select(inside, value, result)
        assert result is not None
        return result

    return site.compute(site.output.shape, element)


def expand(site: Site) -> Tensor:
    """Repeat dimensions of 1, and put new ones before."""
    x = site.input(0)
    return site.compute(site.output.shape, lambda *index: broadcast(x, index))


def gather(site: Site) -> Tensor:
    """Take along an axis; negative indices count from the end.

    Computed indices that reach outside are held at the nearest end.
    """
    x, axis, size = site.input(0), site.attrs["axis"], site.tensors[0].shape[site.attrs["axis"]]
    shape, constant = site.tensors[1].shape, site.value(1)

    def element(*index: ExprLike) -> Expr:
        at = index[axis : axis + len(shape)]
        if constant is not None:
            places = np.where(constant < 0, constant + size, constant).reshape(-1)
            place = chosen(places.tolist(), flattened(at, shape))
        else:
            given = site.input(1)[tuple(at)].astype("int32")
            place = select(given.lt(0), given + size, given)
            place = minimum(maximum(place, 0), size - 1)
        return x[(*index[:axis], place, *index[axis + len(shape) :])]

    return site.compute(site.output.shape, element)


def pad(site: Site) -> Tensor:
    """Grow each dimension by a pair, of one value or of the elements within."""
    x, margins, mode = site.input(0), site.attrs["paddings"], site.attrs["mode"]

    def moved(*index: ExprLike) -> Expr:
        places = [
            chosen(np.pad(np.arange(size), pair, mode=mode).tolist(), i)
            for i, size, pair in zip(index, x.shape, margins, strict=True)
        ]
        return x[tuple(places)]

    def filled(*index: ExprLike) -> Expr:
        return _framed(x, index, margins, site.attrs["value"])

    return site.compute(site.output.shape, filled if mode == "constant" else moved)


def _framed(
    x: Tensor, index: Sequence[ExprLike], margins: Sequence[tuple[int, int]], value: float
) -> Expr:
    """Return an element of a tensor, or the value in the margins around it."""
    inside, places = [], []
    for at, size, (before, after) in zip(index, x.shape, margins, strict=True):
        i = as_expr(at)
        inside += [i.ge(before)] if before else []
        inside += [i.lt(before + size)] if after else []
        places.append(i - before)
    element = x[tuple(places)]
    if not inside:
        return element
    real = x.dtype.startswith("float")
    fill = Real(float(value), x.dtype) if real else Const(int(value), x.dtype)
    return select(all_of(*inside), element, fill)


def reshape(site: Site) -> Tensor:
    """Same elements, new dimensions."""
    x, shape = site.input(0), site.output.shape
    return site.compute(shape, lambda *index: x[regrouped(index, shape, x.shape)])


def slice_(site: Site) -> Tensor:
    """Every ``step``-th element from ``begin`` on."""
    x, (begin, step) = site.input(0), (site.attrs[key] for key in ("begin", "step"))

    def element(*index: ExprLike) -> Expr:
        spans = zip(index, begin, step, strict=True)
        return x[tuple(as_expr(i) * int(by) + int(first) for i, first, by in spans)]

    return site.compute(site.output.shape, element)


def transpose(site: Site) -> Tensor:
    """Dimension ``perm[i]`` becomes the i-th."""
    x, perm = site.input(0), list(site.attrs["perm"])
    back = [perm.index(axis) for axis in range(len(perm))]
    return site.compute(site.output.shape, lambda *index: x[tuple(index[k] for k in back)])


def space_to_depth(site: Site) -> Tensor:
    """The pixels of a block, row by row, become channels."""
    x, block = site.input(0), site.attrs["block"]
    margins = ((0, 0), *site.attrs["padding"], (0, 0))

    def element(n: Expr, h: Expr, w: Expr, k: Expr) -> Expr:
        i, j, c = _apart(k, block, x.shape[3])
        place = (n, h * block + i, w * block + j, c)
        return _framed(x, place, margins, site.attrs["value"])

    return site.compute(site.output.shape, element)


def unfold(site: Site) -> Tensor:
    """Each place holds its window, rows first, channels last."""
    x, attrs = site.input(0), site.attrs
    (sy, sx), (dy, dx) = attrs["strides"], attrs["dilation"]
    margins = ((0, 0), *attrs["padding"], (0, 0))

    def element(n: Expr, h: Expr, w: Expr, k: Expr) -> Expr:
        i, j, c = _apart(k, attrs["window"][1], x.shape[3])
        place = (n, h * sy + i * dy, w * sx + j * dx, c)
        return _framed(x, place, margins, attrs["value"])

    return site.compute(site.output.shape, element)


def _apart(k: ExprLike, columns: int, channels: int) -> tuple[Expr, Expr, Expr]:
    """Return the row, the column and the channel that a place in a window stands for."""
    at = as_expr(k)
    return at // (columns * channels), at // channels % columns, at % channels
