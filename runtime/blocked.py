"""Between NHWC arrays in host memory and blocked layouts in a device's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.module import Buffer

__all__ = ["pack", "unpack"]


def pack(values: NDArray[Any], buffer: Buffer) -> NDArray[np.uint8]:
    """Return the bytes of a buffer for each group of images that share a memory.

    Parameters
    ----------
    values : array of int8 or uint8, (n, H, W, C) or (n, C)
        A group is as many images as the core's batch; the last one is filled up with zeros. The
        device computes with signed bytes: a uint8 value stands there less 128.
    buffer : Buffer

    Returns
    -------
    array of uint8, (ceil(n / batch), buffer.nbytes)
    """
    _, blocks, height, width, batch, block = buffer.shape
    images, channels = values.shape[0], values.shape[-1]
    groups = -(-images // batch)
    padded = np.zeros((groups * batch, height * width, blocks * block), np.uint8)
    raw = values.view(np.uint8) ^ _inverted(values.dtype)
    padded[:images, :, :channels] = raw.reshape(images, height * width, channels)
    split = padded.reshape(groups, batch, height * width, blocks, block)
    ordered = np.ascontiguousarray(split.transpose(0, 3, 2, 1, 4))
    return ordered.reshape(groups, -1)


def unpack(
    data: NDArray[np.uint8], buffer: Buffer, shape: tuple[int, ...], dtype: str, images: int
) -> NDArray[Any]:
    """Undo `pack`.

    Parameters
    ----------
    data : array of uint8, (groups, buffer.nbytes)
    buffer : Buffer
    shape : tuple of int
        Of one image, (1, H, W, C) or (1, C).
    dtype : str
        Of one byte.
    images : int
        How many to return; what fills up the last group is dropped.
    """
    _, blocks, height, width, batch, block = buffer.shape
    split = data.reshape(-1, blocks, height * width, batch, block)
    ordered = split.transpose(0, 3, 2, 1, 4).reshape(-1, height * width, blocks * block)
    kept = ordered[:images, :, : shape[-1]] ^ _inverted(np.dtype(dtype))
    return np.ascontiguousarray(kept).view(dtype).reshape(images, *shape[1:])


def _inverted(dtype: np.dtype[Any]) -> np.uint8:
    """Return the bits in which a value differs from what stands for it on the device."""
    return np.uint8(0x80 if dtype == np.uint8 else 0)
