"""Operators that move elements; of integers with scales they keep the scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.errors import InputError
from vdla.module import Layer, TensorInfo

from .arithmetic import Array, requantize, saturated
from .operands import Kernel, Operand

__all__ = ["MOVEMENT"]


def _concat(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    parts = [operand.array for operand in inputs]
    if layer.params:
        parts = [_brought(layer, k, part, output) for k, part in enumerate(parts)]
    axis = layer.attrs["axis"]
    if axis:
        images = max(len(part) for part in parts)
        # A constant stands beside every image.
        parts = [np.broadcast_to(part, (images, *part.shape[1:])) for part in parts]
    return np.concatenate(parts, axis=axis)


def _brought(layer: Layer, index: int, part: Array, output: TensorInfo) -> Array:
    """Return one input at the output's scale and zero point."""
    p = layer.params
    if p["unchanged"][index]:
        return part
    centred = part.astype(np.int64) - p["input_zero_point"][index]
    m, shift = (np.asarray(p[key][index]) for key in ("input_multiplier", "input_right_shift"))
    scaled = requantize(centred, m, shift, p["rounding"])
    return saturated(scaled + p["output_zero_point"], p["clip"], output.dtype)


def _expand(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    x = inputs[0]
    shape = (*_lead(x, output), *output.shape[1:])
    return np.array(np.broadcast_to(x.array, shape))


def _gather(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    data, indices = (operand.array for operand in inputs)
    axis = layer.attrs["axis"]
    size = data.shape[axis]
    wrong = indices[(indices < -size) | (indices >= size)]
    if wrong.size:
        raise InputError(
            f"Indices into {size} elements must lie in -{size}..{size - 1}, not {wrong[0]} "
            f"({layer.name!r}): clamp the input."
        )
    return np.take(data, indices.astype(np.intp), axis=axis)


def _pad(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    margins, mode = layer.attrs["paddings"], layer.attrs["mode"]
    if mode == "constant":
        return np.pad(inputs[0].array, margins, constant_values=layer.attrs["value"])
    return np.asarray(np.pad(inputs[0].array, margins, mode=mode))


def _reshape(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    return inputs[0].array.reshape((*_lead(inputs[0], output), *output.shape[1:]))


def _slice(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    x, spans = inputs[0], zip(*(layer.attrs[key] for key in ("begin", "end", "step")), strict=True)
    cut = [slice(begin, None if end < 0 else end, step) for begin, end, step in spans]
    if x.info.shape[:1] == (1,):
        cut[0] = slice(None)
    return x.array[tuple(cut)]


def _transpose(layer: Layer, inputs: Sequence[Operand], output: TensorInfo) -> Array:
    return np.array(inputs[0].array.transpose(layer.attrs["perm"]), order="C")


def _lead(x: Operand, output: TensorInfo) -> tuple[int, ...]:
    """Return the output's first dimension: as many images as come in."""
    if output.shape[:1] != (1,) or x.info.shape[:1] != (1,):
        return output.shape[:1]
    return x.array.shape[:1]


MOVEMENT: Mapping[str, Kernel] = {
    "concat": _concat,
    "expand": _expand,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "transpose": _transpose,
}
"""The kernels by operator."""
