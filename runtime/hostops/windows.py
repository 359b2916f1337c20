"""Windows over NHWC arrays as views, and sums of products over them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .arithmetic import Array

__all__ = ["convolve", "convolve_depthwise", "spread", "surrounded", "taps", "windows"]

Pair = tuple[int, int]

_PATCH_BYTES = 32 << 20
"""Most bytes of patches gathered at a time: several images share a product while they fit."""


def surrounded(x: Array, padding: tuple[Pair, Pair], value: float) -> Array:
    """Return x (N, H, W, C) with a margin of `value`."""
    return np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=value)


def windows(x: Array, window: Pair, strides: Pair, dilation: Pair = (1, 1)) -> Array:
    """Return a view (N, OH, OW, C, KH, KW) of x (N, H, W, C), which is padded already."""
    reach = tuple((window[k] - 1) * dilation[k] + 1 for k in range(2))
    every = sliding_window_view(x, reach, axis=(1, 2))
    return every[:, :: strides[0], :: strides[1], :, :: dilation[0], :: dilation[1]]


def convolve(x: Array, weight: Array, strides: Pair, dilation: Pair) -> Array:
    """Return the sums of products of x (N, H, W, I) with weight (O, KH, KW, I), of x's dtype.

    The patches of a few images at a time are gathered into one matrix product, or one a group
    where x has the channels of several.
    """
    outputs, rows, columns, depth = weight.shape
    if x.shape[3] > depth:
        return _convolve_groups(x, weight, strides, dilation)
    # Channels last, as they lie in memory: runs of them are copied at once.
    view = windows(x, (rows, columns), strides, dilation).transpose(0, 1, 2, 4, 5, 3)
    n, height, width = view.shape[:3]
    matrix = np.ascontiguousarray(weight.reshape(outputs, -1).T, x.dtype)
    total = np.empty((n, height * width, outputs), x.dtype)
    step = max(1, _PATCH_BYTES // (height * width * matrix.shape[0] * x.itemsize))
    for first in range(0, n, step):
        patches = view[first : first + step].reshape(-1, matrix.shape[0])
        part = total[first : first + step]
        np.matmul(patches, matrix, out=part.reshape(-1, outputs))
    return total.reshape(n, height, width, outputs)


def _convolve_groups(x: Array, weight: Array, strides: Pair, dilation: Pair) -> Array:
    outputs, rows, columns, depth = weight.shape
    groups = x.shape[3] // depth
    view = windows(x, (rows, columns), strides, dilation)
    n, height, width = view.shape[:3]
    factors = weight.reshape(groups, outputs // groups, rows, columns, depth)
    matrices = factors.transpose(0, 4, 2, 3, 1).reshape(groups, -1, outputs // groups)
    matrices = np.ascontiguousarray(matrices, x.dtype)
    total = np.empty((n, height, width, groups, outputs // groups), x.dtype)
    for k in range(n):
        apart = view[k].reshape(height * width, groups, -1).transpose(1, 0, 2)
        part = np.matmul(np.ascontiguousarray(apart), matrices)
        total[k] = part.transpose(1, 0, 2).reshape(height, width, groups, -1)
    return total.reshape(n, height, width, outputs)


def convolve_depthwise(x: Array, weight: Array, strides: Pair, dilation: Pair) -> Array:
    """Return the sums of products of each channel of x with weight (1, KH, KW, C * m)."""
    _, rows, columns, channels = weight.shape
    x = np.repeat(x, channels // x.shape[3], axis=3)
    view = windows(x, (rows, columns), strides, dilation)
    factors = weight[0].astype(x.dtype).reshape(-1, channels)
    total = np.zeros(view.shape[:4], x.dtype)
    for tap, factor in zip(taps(view), factors, strict=True):
        total += tap * factor
    return total


def spread(x: Array, weight: Array, strides: Pair, dilation: Pair, groups: int) -> Array:
    """Return the whole transposed convolution of x (N, H, W, C) with weight (O, KH, KW, C / g).

    Element (h, w) adds its products with tap (i, j) at (h * sh + i * dh, w * sw + j * dw).
    """
    outputs, rows, columns, depth = weight.shape
    n, height, width, _ = x.shape
    size = [
        (x.shape[1 + k] - 1) * strides[k] + (weight.shape[1 + k] - 1) * dilation[k] + 1
        for k in range(2)
    ]
    total = np.zeros((n, *size, outputs), x.dtype)
    pixels = x.reshape(-1, groups, depth).transpose(1, 0, 2)
    factors = weight.reshape(groups, outputs // groups, rows, columns, depth)
    for i in range(rows):
        for j in range(columns):
            part = pixels @ factors[:, :, i, j].transpose(0, 2, 1)
            top, left = i * dilation[0], j * dilation[1]
            total[
                :,
                top : top + (height - 1) * strides[0] + 1 : strides[0],
                left : left + (width - 1) * strides[1] + 1 : strides[1],
            ] += part.transpose(1, 0, 2).reshape(n, height, width, outputs)
    return total


def taps(view: Array) -> Iterator[Array]:
    """Yield, for each place in the window, what every window holds there."""
    for i in range(view.shape[-2]):
        for j in range(view.shape[-1]):
            yield view[..., i, j]
