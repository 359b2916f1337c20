"""Weights and requantization parameters in the accelerator's blocked layouts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import RQ_PACK

from .lowered import blocks_of

__all__ = ["diagonal_weights", "dense_weights", "requantize_params", "split_lanes"]


def dense_weights(weights: NDArray[np.int8], config: Config) -> NDArray[np.int8]:
    """Pack convolution weights.

    Parameters
    ----------
    weights : ndarray of int8, shape (O, KH, KW, I)

    Returns
    -------
    ndarray of int8, shape (O / block_out, I / block_in, KH, KW, block_out, block_in)
        Channels are padded with zeros to whole blocks.
    """
    out, height, width, inp = weights.shape
    bo, bi = config.block_out, config.block_in
    k, c = blocks_of(out, bo), blocks_of(inp, bi)
    padded = np.zeros((k * bo, height, width, c * bi), np.int8)
    padded[:out, :, :, :inp] = weights
    blocked = padded.reshape(k, bo, height, width, c, bi)
    return np.ascontiguousarray(blocked.transpose(0, 4, 2, 3, 1, 5))


def diagonal_weights(weights: NDArray[np.int8], config: Config) -> NDArray[np.int8]:
    """Pack depthwise weights as blocks with one weight a row.

    Parameters
    ----------
    weights : ndarray of int8, shape (KH, KW, C)

    Returns
    -------
    ndarray of int8, shape (C / block_out, r, KH, KW, block_out, block_in)
        ``r`` blocks of input channels meet one block of output channels: block_out / block_in, or
        1 where an input block holds several output blocks.
    """
    height, width, channels = weights.shape
    bo, bi = config.block_out, config.block_in
    k, r = blocks_of(channels, bo), max(1, bo // bi)
    packed = np.zeros((k, r, height, width, bo, bi), np.int8)
    for channel in range(channels):
        block, row = divmod(channel, bo)
        part, column = divmod(row, bi) if bo >= bi else (0, channel % bi)
        packed[block, part, :, :, row, column] = weights[:, :, channel]
    return packed


def split_lanes(values: NDArray[np.int32], config: Config) -> NDArray[np.int32]:
    """Return one value a channel as ACC entries, shape (C / block_out, batch, block_out)."""
    blocks = blocks_of(len(values), config.block_out)
    padded = np.zeros(blocks * config.block_out, np.int32)
    padded[: len(values)] = values
    lanes = padded.reshape(blocks, 1, config.block_out)
    return np.broadcast_to(lanes, (blocks, config.batch, config.block_out))


def requantize_params(
    bias: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    right_shift: NDArray[np.int32],
    zero_point: int,
    rounding: str,
    config: Config,
) -> NDArray[np.int32]:
    """Pack the parameters of RQ.

    Parameters
    ----------
    bias, multiplier, right_shift : ndarray of int32, shape (C,)
    zero_point : int
        Added after the shift.
    rounding : str
        ``double`` or ``single``.

    Returns
    -------
    ndarray of int32, shape (C / block_out, 3, batch, block_out)
    """
    fields = {"shift": right_shift, "zero_point": zero_point, "single": rounding == "single"}
    packed = np.zeros(len(bias), np.int64)
    for bits in RQ_PACK:
        mask = (1 << bits.width) - 1
        packed |= (np.asarray(fields[bits.name], np.int64) & mask) << bits.lsb
    parts = [bias, multiplier, packed.astype(np.int32)]
    return np.ascontiguousarray(np.stack([split_lanes(p, config) for p in parts], axis=1))
