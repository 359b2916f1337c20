"""Sliding windows over NHWC arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["correlate", "correlate_depthwise", "pad_image", "taps", "transpose_correlate"]

Array = npt.NDArray[Any]
Pair = tuple[int, int]


def pad_image(x: Array, padding: tuple[Pair, Pair], value: float) -> Array:
    """Surround height and width of x (N, H, W, C) with `value`."""
    if padding == ((0, 0), (0, 0)):
        return x
    return np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=value)


def taps(
    x: Array, window: Pair, strides: Pair, dilation: Pair = (1, 1)
) -> Iterator[tuple[int, int, Array]]:
    """Give, for each place (i, j) of the window, what every window holds there.

    Parameters
    ----------
    x : array (N, H, W, C)
        Padded already.

    Yields
    ------
    i, j : int
    view : array (N, OH, OW, C)
    """
    height, width = (
        (x.shape[1 + k] - (window[k] - 1) * dilation[k] - 1) // strides[k] + 1 for k in range(2)
    )
    for i in range(window[0]):
        for j in range(window[1]):
            top, left = i * dilation[0], j * dilation[1]
            yield (
                i,
                j,
                x[
                    :,
                    top : top + (height - 1) * strides[0] + 1 : strides[0],
                    left : left + (width - 1) * strides[1] + 1 : strides[1],
                ],
            )


def correlate(x: Array, weight: Array, strides: Pair, dilation: Pair) -> Array:
    """Convolve x (N, H, W, I * groups), padded already, with weight (O, KH, KW, I).

    The g-th run of I channels makes the g-th run of O / groups outputs.

    Returns
    -------
    array (N, OH, OW, O), of x's dtype
        The dtype must hold every partial sum: 8-bit operands in float64 do, whatever the order in
        which the matrix product adds them up, since a term is below 2**16 and every integer up to
        2**53 is a double.
    """
    outputs, rows, columns, depth = weight.shape
    groups = x.shape[3] // depth
    if groups > 1:
        each = zip(np.split(x, groups, axis=3), np.split(weight, groups), strict=True)
        return np.concatenate([correlate(*part, strides, dilation) for part in each], axis=3)
    views = [view for _, _, view in taps(x, (rows, columns), strides, dilation)]
    patches = views[0] if len(views) == 1 else np.concatenate(views, axis=-1)
    flat = weight.reshape(outputs, -1).T.astype(x.dtype)
    product: Array = patches.reshape(-1, flat.shape[0]) @ flat
    return product.reshape(*patches.shape[:3], outputs)


def correlate_depthwise(x: Array, weight: Array, strides: Pair, dilation: Pair) -> Array:
    """Convolve each channel of x (N, H, W, C), padded already, with weight (1, KH, KW, C * m).

    Returns
    -------
    array (N, OH, OW, C * m), of x's dtype
        Output channel ``c * m + k`` reads input channel c.
    """
    _, rows, columns, channels = weight.shape
    x = np.repeat(x, channels // x.shape[3], axis=3)
    views = taps(x, (rows, columns), strides, dilation)
    return np.asarray(sum(view * weight[0, i, j].astype(x.dtype) for i, j, view in views))


def transpose_correlate(
    x: Array, weight: Array, strides: Pair, dilation: Pair, groups: int
) -> Array:
    """Convolve the transpose of x (N, H, W, C), uncropped, with weight (O, KH, KW, C / groups).

    The gradient of a strided convolution: the turned window slides, a step at a time, over the
    input with zeros between its elements and a window less one around them.

    Returns
    -------
    array (N, (H - 1) * sh + (KH - 1) * dh + 1, the like of W, O), of x's dtype
    """
    n, height, width, channels = x.shape
    apart = np.zeros(
        (n, (height - 1) * strides[0] + 1, (width - 1) * strides[1] + 1, channels), x.dtype
    )
    apart[:, :: strides[0], :: strides[1]] = x
    around = [(weight.shape[1 + k] - 1) * dilation[k] for k in range(2)]
    apart = pad_image(apart, ((around[0], around[0]), (around[1], around[1])), 0)
    turned = weight[:, ::-1, ::-1]
    parts = [
        correlate(part, factors, (1, 1), dilation)
        for part, factors in zip(
            np.split(apart, groups, axis=3), np.split(turned, groups, axis=0), strict=True
        )
    ]
    return np.concatenate(parts, axis=3)
