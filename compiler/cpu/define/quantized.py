"""Element-wise operators on integers that stand for real numbers, and the ways in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vdla.compiler.graph import Quant
from vdla.compiler.graph.quantization import add_params, leaky_params, rescale_params, tensor_quant
from vdla.compiler.te import Expr, Tensor, call, maximum, minimum, select
from vdla.compiler.te.expr import Const, ExprLike, Real

from . import elementwise
from .arithmetic import requantize, rescaler, round_half_away, saturated
from .indexing import read
from .site import Array, Site, wide_float

__all__ = ["add", "dequantize", "leaky_relu", "quantize", "rescale"]


def add(site: Site) -> Tensor:
    """Bring both to one scale, add, and bring the sum to the output's."""
    if not site.quantized:
        return elementwise.add(site)
    p = add_params(site.graph, site.node)
    scales = [
        rescaler(site, p.input_multiplier[k], p.input_right_shift[k], p.rounding) for k in range(2)
    ]
    last = rescaler(site, p.output_multiplier, p.output_right_shift, p.rounding)

    def element(*index: ExprLike) -> Expr:
        terms = []
        for k in range(2):
            centred = read(site, k, index).astype("int32") - p.input_zero_point[k]
            terms.append(scales[k](centred << p.left_shift, 0))
        return saturated(last(terms[0] + terms[1], 0), p.output_zero_point, p.clip, site.dtype)

    return site.compute(site.output.shape, element)


def rescale(site: Site) -> Tensor:
    """clip, relu and relu6, and quantize between integer types."""
    if not site.quantized:
        return elementwise.clip(site)
    x, p = site.input(0), rescale_params(site.graph, site.node)
    finish = requantize(site, p, p.output_zero_point, p.clip)
    wide = "int32" if np.dtype(x.dtype).itemsize < 4 else "int64"

    def element(*index: ExprLike) -> Expr:
        return finish(x[tuple(index)].astype(wide) - p.input_zero_point)

    return site.compute(x.shape, element)


def leaky_relu(site: Site) -> Tensor:
    """Either side of zero has a multiplier of its own."""
    if not site.quantized:
        return elementwise.ELEMENTWISE["leaky_relu"](site)
    x, p = site.input(0), leaky_params(site.graph, site.node)
    above = rescaler(site, p.multiplier, p.right_shift, p.rounding)
    below = rescaler(site, p.below_multiplier, p.below_right_shift, p.rounding)

    def element(*index: ExprLike) -> Expr:
        centred = x[tuple(index)].astype("int32") - p.input_zero_point
        sides = below(centred, 0), above(centred, 0)
        wide = "int64" if any(side.dtype == "int64" for side in sides) else "int32"
        scaled = select(centred.lt(0), *(side.astype(wide) for side in sides))
        return saturated(scaled, p.output_zero_point, p.clip, site.dtype)

    return site.compute(x.shape, element)


def quantize(site: Site) -> Tensor:
    """Floats over their scale, rounded to even or half away from zero."""
    x = site.input(0)
    if not x.dtype.startswith("float"):
        return rescale(site)
    scale, zero_point = _along(site, tensor_quant(site.output), np.float32)
    low, high = (float(limit) for limit in (np.iinfo(site.dtype).min, np.iinfo(site.dtype).max))
    # Numbers of 16 bits and their zero points are exact in single precision.
    exact = "float32" if np.dtype(site.dtype).itemsize <= 2 and x.dtype != "float64" else "float64"

    def element(*index: ExprLike) -> Expr:
        value = x[tuple(index)].astype(wide_float(x.dtype))
        steps = value / scale(index).astype(value.dtype)
        even = site.attrs["rounding"] == "even"
        whole = call("rint", steps) if even else round_half_away(steps)
        moved = whole.astype(exact) + zero_point(index).astype(exact)
        inside = minimum(maximum(moved, low), high)
        # What is inside the range already need not be held to it once more.
        return (
            inside.astype("int32").wrap(site.dtype)
            if exact == "float32"
            else inside.astype(site.dtype)
        )

    return site.compute(x.shape, element)


def dequantize(site: Site) -> Tensor:
    """Integers less their zero point, times their scale, rounded once."""
    x = site.input(0)
    narrow = np.dtype(x.dtype).itemsize <= 2
    # Both factors have at most 24 bits then: single precision rounds what is exact in double.
    kind = "float32" if narrow and site.dtype == "float32" else "float64"
    scale, zero_point = _along(site, tensor_quant(site.tensors[0]), np.dtype(kind))
    wide = "int32" if np.dtype(x.dtype).itemsize < 4 else "int64"

    def element(*index: ExprLike) -> Expr:
        centred = x[tuple(index)].astype(wide) - zero_point(index).astype(wide)
        return (centred.astype(kind) * scale(index)).astype(site.dtype)

    return site.compute(x.shape, element)


def _along(
    site: Site, quant: Quant, kind: Any
) -> tuple[Callable[[Any], Expr], Callable[[Any], Expr]]:
    """Return functions of an index: the scale, and the zero point as an int32."""
    scale = quant.scale.astype(kind)
    if quant.axis is None:
        one, zero = Real(float(scale[0]), str(scale.dtype)), Const(int(quant.zero_point[0]))
        return lambda index: one, lambda index: zero
    axis = quant.axis
    held = _vector(site, scale, "scale")
    zeros = _vector(site, quant.zero_point.astype(np.int32), "zero_point")
    return lambda index: held(index[axis]), lambda index: zeros(index[axis])


def _vector(site: Site, values: Array, part: str) -> Callable[[ExprLike], Expr]:
    held = site.constant(values, site.named(part))
    return lambda at: held[at]
