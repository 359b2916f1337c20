"""Weights and requantization parameters in the accelerator's blocked layouts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import RQ_PACK

from .lowered import blocks_of

__all__ = ["dense_weights", "diagonal_blocks", "diagonal_weights", "requantize_params"]


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


def diagonal_blocks(multiplier: int, config: Config) -> tuple[int, int] | None:
    """Return the input blocks an output block meets in a depthwise convolution, and the reverse.

    Parameters
    ----------
    multiplier : int
        Outputs of each channel.

    Returns
    -------
    (int, int) or None
        One of them is 1. None where neither block holds a whole number of the other's channels.
    """
    made = config.block_in * multiplier
    if made % config.block_out and config.block_out % made:
        return None
    return max(1, config.block_out // made), max(1, made // config.block_out)


def diagonal_weights(
    weights: NDArray[np.int8], config: Config, multiplier: int = 1
) -> NDArray[np.int8]:
    """Pack depthwise weights as blocks with one weight a row.

    Parameters
    ----------
    weights : ndarray of int8, shape (KH, KW, C * multiplier)
    config : Config
    multiplier : int
        Outputs of each channel.

    Returns
    -------
    ndarray of int8, shape (C * multiplier / block_out, r, KH, KW, block_out, block_in)
        ``r`` blocks of input channels meet one block of output channels.
    """
    height, width, channels = weights.shape
    bo, bi = config.block_out, config.block_in
    blocks = diagonal_blocks(multiplier, config)
    assert blocks is not None
    packed = np.zeros((blocks_of(channels, bo), blocks[0], height, width, bo, bi), np.int8)
    out = np.arange(channels)
    block, row = np.divmod(out, bo)
    source, column = np.divmod(out // multiplier, bi)
    packed[block, source % blocks[0], :, :, row, column] = weights.transpose(2, 0, 1)
    return packed


def _split_lanes(values: NDArray[np.int32], config: Config) -> NDArray[np.int32]:
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
    return np.ascontiguousarray(np.stack([_split_lanes(p, config) for p in parts], axis=1))
