"""Images laid out anew, from the definition: where each element comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Node

from .windows import pad_image, taps

__all__ = ["space_to_depth", "unfold"]

Array = npt.NDArray[Any]


def unfold(node: Node, x: Array) -> Array:
    """Put the taps of every window one behind the other."""
    attrs = node.attrs
    padded = pad_image(x, attrs["padding"], attrs["value"])
    views = taps(padded, attrs["window"], attrs["strides"], attrs["dilation"])
    return np.concatenate([view for _, _, view in views], axis=-1)


def space_to_depth(node: Node, x: Array) -> Array:
    """Put the pixels of every block one behind the other, row by row."""
    block = node.attrs["block"]
    padded = pad_image(x, node.attrs["padding"], node.attrs["value"])
    pixels = [padded[:, i::block, j::block] for i in range(block) for j in range(block)]
    return np.concatenate(pixels, axis=-1)
