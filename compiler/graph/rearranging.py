"""Shape rules of the operators that lay an image out anew for a convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vdla.errors import ModelError

from .shapes import window_output

__all__ = ["space_to_depth", "unfold"]

Shape = tuple[int, ...]


def unfold(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """NHWC to (N, OH, OW, KH * KW * C): each place holds its window, rows first, channels last."""
    n, height, width, channels = _image(inputs[0])
    rows, columns = (
        window_output(
            size, attrs["window"][k], attrs["strides"][k], attrs["padding"][k], attrs["dilation"][k]
        )
        for k, size in enumerate((height, width))
    )
    return (n, rows, columns, attrs["window"][0] * attrs["window"][1] * channels)


def space_to_depth(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """NHWC, padded, to (N, H / b, W / b, b * b * C): each block's pixels become channels."""
    n, height, width, channels = _image(inputs[0])
    block = attrs["block"]
    sides = [size + sum(attrs["padding"][k]) for k, size in enumerate((height, width))]
    if block < 1 or any(side % block for side in sides):
        raise ModelError(
            f"A padded image must divide into blocks of {block}, not measure "
            f"{sides[0]}x{sides[1]}. Pad it further."
        )
    return (n, sides[0] // block, sides[1] // block, block * block * channels)


def _image(shape: Shape) -> Shape:
    if len(shape) != 4:
        raise ModelError(
            f"An image must have 4 dimensions, NHWC, not shape {shape}. Reshape it first."
        )
    return shape
