"""Sums, means and maxima over dimensions, and operators that weigh elements by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from vdla.compiler.graph.quantization import mean_params, tensor_quant
from vdla.compiler.te import (
    Expr,
    Tensor,
    all_of,
    call,
    max_over,
    maximum,
    minimum,
    reduce_axis,
    select,
    sum_over,
)
from vdla.compiler.te.expr import ExprLike, Real, as_expr
from vdla.compiler.te.tensor import IterVar

from .arithmetic import requantize
from .site import Site, wide_float

__all__ = ["lrn", "mean", "reduce_max", "reduce_sum", "softmax"]


def mean(site: Site) -> Tensor:
    """Of integers, to the bit as TFLite's: the division is inside the multiplier."""
    x = site.input(0)
    count = prod(x.shape[axis] for axis in site.attrs["axes"])
    if not site.quantized:
        kind = wide_float(x.dtype)
        sums = _reduced(site, sum_over, kind, "sums")
        by = Real(float(count), kind)
        return site.compute(sums.shape, lambda *i: (sums[i] / by).astype(site.dtype))
    p = mean_params(site.graph, site.node)
    sums = _reduced(site, sum_over, "int32" if count < 1 << 23 else "int64", "sums")
    finish = requantize(site, p, p.output_zero_point, p.clip)
    offset = p.count * p.input_zero_point
    return site.compute(sums.shape, lambda *i: finish(sums[i] - offset))


def reduce_sum(site: Site) -> Tensor:
    """Integers wrap around in their own type; halves are added up as floats."""
    kind = wide_float(site.dtype)
    sums = _reduced(site, sum_over, kind, "" if kind == site.dtype else "sums")
    if kind == site.dtype:
        return sums
    return site.compute(sums.shape, lambda *i: sums[i].astype(site.dtype))


def reduce_max(site: Site) -> Tensor:
    """Of bools, whether any is true."""
    if site.dtype != "bool":
        return _reduced(site, max_over, site.dtype, "")
    found = _reduced(site, max_over, "uint8", "maxima")
    return site.compute(found.shape, lambda *i: found[i].astype("bool"))


def _reduced(site: Site, over: Callable[..., Expr], kind: str, part: str) -> Tensor:
    """Return the input, in some type, combined over the node's axes."""
    x, axes = site.input(0), site.attrs["axes"]
    steps = {axis: reduce_axis(x.shape[axis], f"k{axis}") for axis in axes}

    def element(*index: ExprLike) -> Expr:
        given = iter(index)
        places: list[ExprLike] = []
        for axis in range(len(x.shape)):
            own = next(given) if axis not in steps or site.attrs["keep_dims"] else 0
            places.append(steps.get(axis, own))
        value = x[tuple(places)].astype(kind)
        return over(value, tuple(steps.values())) if steps else value

    return site.compute(site.output.shape, element, part)


def softmax(site: Site) -> Tensor:
    """Exponentials over their sum along an axis."""
    x, axis = site.input(0), site.attrs["axis"]
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])

    def along(tensor: Tensor, index: Sequence[ExprLike], step: IterVar) -> Expr:
        return tensor[(*index[:axis], step, *index[axis:])]

    def beside(tensor: Tensor, index: Sequence[ExprLike]) -> Expr:
        return tensor[(*index[:axis], *index[axis + 1 :])]

    k = reduce_axis(x.shape[axis], "k")
    peak = site.compute(rest, lambda *i: max_over(along(x, i, k), k), "peak")
    beta = site.attrs["beta"]
    if site.quantized:
        return _integer_softmax(site, lambda *i: (x[i], beside(peak, i)), along, beside)
    kind = wide_float(x.dtype)

    def exponential(*i: ExprLike) -> Expr:
        distance = x[i].astype(kind) - beside(peak, i).astype(kind)
        factor = Real(float(np.dtype(kind).type(beta)), kind)
        return call("exp", distance * factor if beta != 1 else distance)

    powers = site.compute(x.shape, exponential, "exponentials")
    r = reduce_axis(x.shape[axis], "r")
    total = site.compute(rest, lambda *i: sum_over(along(powers, i, r), r), "total")
    return site.compute(x.shape, lambda *i: (powers[i] / beside(total, i)).astype(site.dtype))


def _integer_softmax(
    site: Site,
    operands: Callable[..., tuple[Expr, Expr]],
    along: Callable[[Tensor, Sequence[ExprLike], IterVar], Expr],
    beside: Callable[[Tensor, Sequence[ExprLike]], Expr],
) -> Tensor:
    """TFLite looks exponentials up by the distance from the peak, and adds them left to right."""
    shape, axis = site.output.shape, site.attrs["axis"]
    scale = np.float32(tensor_quant(site.tensors[0]).scale[0])
    values = np.exp(np.arange(256, dtype=np.float32) * (-scale * np.float32(site.attrs["beta"])))
    table = site.constant(values, site.named("table"))
    target = tensor_quant(site.output)
    step, zero_point = Real(float(np.float32(target.scale[0]))), int(target.zero_point[0])
    limits = np.iinfo(site.dtype)

    def exponential(*i: ExprLike) -> Expr:
        value, peak = (operand.astype("int32") for operand in operands(*i))
        return table[maximum(peak - value, 0)]

    powers = site.compute(shape, exponential, "exponentials")
    k = reduce_axis(shape[axis], "r")
    rest = (*shape[:axis], *shape[axis + 1 :])
    start = Real(0.0)  # a sum that has one keeps its order
    total = site.compute(rest, lambda *i: sum_over(along(powers, i, k), k, start), "total")
    inverse = site.compute(rest, lambda *i: 1.0 / (total[i] * step), "inverse")

    def element(*i: ExprLike) -> Expr:
        # The maximum, of numbers above 0, keeps the product and the sum rounded apart.
        scaled = maximum(powers[i] * beside(inverse, i), 0.0)
        steps = call("floor", scaled + 0.5).astype("int32")
        inside = minimum(steps, int(limits.max) - zero_point)
        return maximum(inside + zero_point, int(limits.min)).astype(site.dtype)

    return site.compute(shape, element)


def lrn(site: Site) -> Tensor:
    """Each element over a power of the squares of the channels around it."""
    x, attrs, last = site.input(0), site.attrs, len(site.output.shape) - 1
    kind, channels, size = wide_float(x.dtype), x.shape[-1], site.attrs["size"]
    before = (size - 1) // 2
    wide = (*x.shape[:last], channels + size - 1)

    def square(*i: ExprLike) -> Expr:
        at = as_expr(i[last])
        value = x[(*i[:last], at - before)].astype(kind)
        inside = all_of(at.ge(before), at.lt(before + channels))
        return select(inside, value * value, Real(0.0, kind))

    squares, k = site.compute(wide, square, "squares"), reduce_axis(size, "k")
    total = site.compute(
        x.shape,
        lambda *i: sum_over(squares[(*i[:last], as_expr(i[last]) + k)], k),
        "sums",
    )
    number = np.dtype(kind).type
    bias, alpha, beta = (
        Real(float(number(v)), kind) for v in (attrs["bias"], attrs["alpha"] / size, attrs["beta"])
    )

    def element(*i: ExprLike) -> Expr:
        scale = call("pow", total[i] * alpha + bias, beta)
        return (x[i].astype(kind) / scale).astype(site.dtype)

    return site.compute(x.shape, element)
