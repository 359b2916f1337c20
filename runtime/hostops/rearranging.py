"""Images laid out anew for a convolution on the accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .windows import surrounded, windows

__all__ = ["blocks_to_depth", "unfolded"]

Array = npt.NDArray[Any]
Pair = tuple[int, int]


def unfolded(
    x: Array, window: Pair, strides: Pair, dilation: Pair, padding: tuple[Pair, Pair], value: int
) -> Array:
    """Return x (N, H, W, C) as (N, OH, OW, KH * KW * C): each place holds its window."""
    view = windows(surrounded(x, padding, value), window, strides, dilation)
    return np.ascontiguousarray(view.transpose(0, 1, 2, 4, 5, 3)).reshape(*view.shape[:3], -1)


def blocks_to_depth(x: Array, block: int, padding: Sequence[Pair], value: int) -> Array:
    """Return x (N, H, W, C), padded, as (N, H / b, W / b, b * b * C)."""
    padded = np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=value)
    n, height, width, channels = padded.shape
    split = padded.reshape(n, height // block, block, width // block, block, channels)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 2, 4, 5)).reshape(
        n, height // block, width // block, -1
    )
