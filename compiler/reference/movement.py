"""Operators that move elements: each output index says which input index it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.graph import Node, Tensor

from .arithmetic import fixed_point, rescale
from .values import Array, Operator, Value, images_of, store

__all__ = ["MOVEMENT"]


def _concat(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    axis, start = node.attrs["axis"], 0
    shape = list(output.shape)
    if axis:
        shape[0] *= max(map(images_of, inputs))
    joined = np.zeros(shape, output.dtype)
    for value in inputs:
        size = value.tensor.shape[axis]
        place = (slice(None),) * axis + (slice(start, start + size),)
        joined[place] = _rescaled(value, output)
        start += size
    return joined


def _rescaled(value: Value, output: Tensor) -> Array:
    """Bring an input to the output's scale and zero point, rounding once."""
    x, y = value.tensor.quant, output.quant
    if x is None or y is None or x.same_as(y):
        return value.array
    m, shift = fixed_point(value.scale / float(y.scale[0]))
    scaled = rescale(value.centred, m, shift, "single")
    return store(scaled + y.zero_point, output, None)


def _expand(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    # A first dimension of 1 stays one of images.
    images = images_of(inputs[0]) if output.shape[:1] == (1,) else 1
    whole = np.zeros(
        (images * output.shape[0], *output.shape[1:]) if output.shape else (), output.dtype
    )
    whole[...] = inputs[0].array
    return whole


def _gather(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    data, indices = (value.array for value in inputs)
    return np.asarray(data[(slice(None),) * node.attrs["axis"] + (indices,)])


def _pad(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    x, mode = inputs[0].array, node.attrs["mode"]
    for axis, (before, after) in enumerate(node.attrs["paddings"]):
        size = x.shape[axis]
        wanted = np.arange(-before, size + after)
        inside = (wanted >= 0) & (wanted < size)
        if mode == "wrap":
            source = wanted % size
        elif mode == "reflect" and size > 1:
            # Up and down again, the ends once each.
            lap = wanted % (2 * size - 2)
            source = np.where(lap < size, lap, 2 * size - 2 - lap)
        else:
            source = np.clip(wanted, 0, size - 1)
        x = x.take(source, axis=axis)
        if mode == "constant":
            x[(slice(None),) * axis + (~inside,)] = node.attrs["value"]
    return x


def _reshape(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    data = inputs[0]
    if output.shape[:1] != (1,):
        return data.array.reshape(output.shape)
    return data.array.reshape(images_of(data), *output.shape[1:])


def _slice(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    begin, end, step = (node.attrs[key] for key in ("begin", "end", "step"))
    x = inputs[0].array
    for axis, size in enumerate(inputs[0].tensor.shape):
        if axis == 0 and size == 1:
            continue
        x = x.take(list(range(begin[axis], end[axis], step[axis])), axis=axis)
    return x


def _transpose(node: Node, inputs: Sequence[Value], output: Tensor) -> Array:
    return np.moveaxis(inputs[0].array, node.attrs["perm"], range(len(output.shape)))


MOVEMENT: Mapping[str, Operator] = {
    "concat": _concat,
    "expand": _expand,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "transpose": _transpose,
}
"""``(node, input values, output tensor) -> output array``, by operator."""
