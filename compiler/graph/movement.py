"""Shape rules of the operators that move elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, prod
from typing import Any

from vdla.errors import ModelError

__all__ = [
    "COORDINATES",
    "NEAREST",
    "RESIZES",
    "concat",
    "expand",
    "gather",
    "pad",
    "reshape",
    "resize",
    "slice_",
    "transpose",
]

Shape = tuple[int, ...]

PADS = ("constant", "edge", "reflect", "wrap")
RESIZES = ("cubic", "linear", "nearest")
NEAREST = ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor")
COORDINATES = (
    "align_corners",
    "asymmetric",
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)
"""What an output index stands for in the input, by the names of ONNX's Resize."""


def concat(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Join along one axis; every other dimension is the same."""
    first, axis = inputs[0], attrs["axis"]
    _axis(axis, first)
    for other in inputs[1:]:
        if len(other) != len(first) or _without(other, axis) != _without(first, axis):
            raise ModelError(
                f"Concatenated shapes must differ along axis {axis} alone, not be {first} and "
                f"{other}. Reshape or pad one."
            )
    return (*first[:axis], sum(s[axis] for s in inputs), *first[axis + 1 :])


def slice_(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Take ``range(begin, end, step)`` of each dimension; an end of -1 stands before the first."""
    data = inputs[0]
    spans = (attrs["begin"], attrs["end"], attrs["step"])
    if any(len(span) != len(data) for span in spans) or 0 in attrs["step"]:
        raise ModelError(
            f"A slice must have a begin, an end and a step other than 0 for each of {len(data)} "
            f"dimensions, not {spans[0]}, {spans[1]} and {spans[2]}. Give one a dimension."
        )
    taken = [range(*span) for span in zip(*spans, strict=True)]
    for axis, (span, size) in enumerate(zip(taken, data, strict=True)):
        inside = span and all(0 <= place < size for place in (span[0], span[-1]))
        if not inside or not -1 <= span.stop <= size:
            raise ModelError(
                f"A slice must take at least one element and none outside; axis {axis} of {data} "
                f"is taken from {span.start} to {span.stop} by {span.step}. Clamp begin and end."
            )
    return tuple(len(span) for span in taken)


def pad(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Grow each dimension by its pair."""
    data, pairs = inputs[0], attrs["paddings"]
    if len(pairs) != len(data) or any(min(pair) < 0 for pair in pairs):
        raise ModelError(
            f"Paddings must be a pair of counts for each of {len(data)} dimensions, not {pairs}. "
            "Correct the attribute."
        )
    mode = attrs.get("mode", "constant")
    _one_of("A pad's mode", mode, PADS)
    if mode == "reflect" and any(d == 1 and max(p) for d, p in zip(data, pairs, strict=True)):
        raise ModelError(
            f"A dimension must have at least 2 elements to be reflected; {data} is padded by "
            f"{pairs}. Pad by the edge."
        )
    return tuple(d + before + after for d, (before, after) in zip(data, pairs, strict=True))


def reshape(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Same elements, new dimensions."""
    shape = tuple(attrs["shape"])
    if prod(shape) != prod(inputs[0]):
        raise ModelError(
            f"A reshape must keep the number of elements; {inputs[0]} holds {prod(inputs[0])} and "
            f"{shape} {prod(shape)}. Correct the shape."
        )
    return shape


def transpose(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Output dimension i is input dimension ``perm[i]``."""
    data, perm = inputs[0], attrs["perm"]
    if sorted(perm) != list(range(len(data))):
        raise ModelError(
            f"A permutation must name each of {len(data)} dimensions once, not {perm}. "
            "Count from 0."
        )
    return tuple(data[axis] for axis in perm)


def gather(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Put the indices' shape in the place of one axis."""
    data, indices, axis = *inputs, attrs["axis"]
    _axis(axis, data)
    return (*data[:axis], *indices, *data[axis + 1 :])


def expand(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Repeat dimensions of 1, and put new ones before, up to ``shape``."""
    data, shape = inputs[0], tuple(attrs["shape"])
    last = shape[len(shape) - len(data) :]
    if len(data) > len(shape) or any(d not in (1, s) for d, s in zip(data, last, strict=True)):
        raise ModelError(
            f"A shape must expand by repeating dimensions of 1, not {data} to {shape}. "
            "Give the whole output shape."
        )
    return shape


def resize(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Sample anew to ``size``."""
    data, size, scales = inputs[0], tuple(attrs["size"]), attrs["scales"]
    _one_of("A resize's mode", attrs["mode"], RESIZES)
    _one_of("A resize's coordinates", attrs["coordinates"], COORDINATES)
    _one_of("A resize's nearest", attrs["nearest"], NEAREST)
    if not len(data) == len(size) == len(scales) or min((1, *size)) < 1:
        raise ModelError(
            f"A resize must have a size of at least 1 and a scale for each of {len(data)} "
            f"dimensions, not {size} and {scales}. Give one a dimension."
        )
    if not all(isfinite(scale) and scale > 0 for scale in scales):
        raise ModelError(
            f"A resize's scales must be positive and finite, not {scales}. Divide output by input "
            "sizes."
        )
    cropping = attrs["coordinates"] == "tf_crop_and_resize"
    if cropping and (attrs["roi"] is None or len(attrs["roi"]) != len(data)):
        raise ModelError(
            f"A cropping resize must have a region, a (begin, end) pair for each of {len(data)} "
            f"dimensions, not {attrs['roi']}. Use (0.0, 1.0) where nothing is cropped."
        )
    return size


def _axis(axis: int, shape: Shape) -> None:
    if not 0 <= axis < len(shape):
        raise ModelError(
            f"An axis must be one of the {len(shape)} dimensions counted from 0, not {axis}. "
            "Count from the front."
        )


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _one_of(what: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ModelError(f"{what} must be one of {', '.join(allowed)}, not {value!r}. Choose one.")
