"""Weights and requantization parameters in the accelerator's blocked layouts."""

from __future__ import annotations

from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import RQ_PACK

from .conv2d import Place
from .lowered import blocks_of

__all__ = ["group_blocks", "grouped_weights", "requantize_params", "split_weights"]


def group_blocks(
    channels: tuple[int, int], groups: int, config: Config
) -> tuple[tuple[int, int], tuple[tuple[int, ...], ...]]:
    """Return which blocks of input channels the blocks of output channels meet.

    Parameters
    ----------
    channels : (int, int)
        Input and output channels of one group.
    groups : int
    config : Config

    Returns
    -------
    blocks : (int, int)
        Input and output blocks of the fewest groups that fill whole blocks on both sides, or of
        all groups.
    met : tuple of tuple of int
        For each of those output blocks, the input blocks that it meets; empty where each meets
        all of them.

    Examples
    --------
    24 channels to 24 in blocks of 16: of two groups' 3 x 3 blocks two hold nothing but zeros.

    >>> from vdla.config import PYNQ_Z1
    >>> group_blocks((24, 24), 8, PYNQ_Z1)
    ((3, 3), ((0, 1), (0, 1, 2), (1, 2)))
    >>> group_blocks((1, 1), 32, PYNQ_Z1)
    ((1, 1), ())
    """
    (inp, out), (bi, bo) = channels, (config.block_in, config.block_out)
    together = min(groups, lcm(bi // gcd(inp, bi), bo // gcd(out, bo)))
    blocks = blocks_of(together * inp, bi), blocks_of(together * out, bo)
    met = []
    for k in range(blocks[1]):
        first, last = k * bo // out, (min((k + 1) * bo, together * out) - 1) // out
        met.append(tuple(range(first * inp // bi, ((last + 1) * inp - 1) // bi + 1)))
    return blocks, () if all(len(row) == blocks[0] for row in met) else tuple(met)


def grouped_weights(weights: NDArray[np.int16], groups: int, config: Config) -> NDArray[np.int16]:
    """Pack the weights of a grouped convolution: what lies outside its own group is zero.

    Parameters
    ----------
    weights : ndarray of int16, shape (O, KH, KW, C / groups)
        Of a depthwise convolution C / groups is 1; of an ordinary one, C.
    groups : int
    config : Config

    Returns
    -------
    ndarray of int16, shape (O / block_out, r, KH, KW, block_out, block_in)
        ``r`` is the most blocks of input channels that one block of output channels meets, see
        `group_blocks`. Channels are padded with zeros to whole blocks.
    """
    outputs, height, width, depth = weights.shape
    bo, bi = config.block_out, config.block_in
    (inp_blocks, out_blocks), met = group_blocks((depth, outputs // groups), groups, config)
    most = max(map(len, met)) if met else inp_blocks
    # Where each input block stands in the list of an output block.
    place = np.zeros((out_blocks, inp_blocks), np.int64)
    for k in range(out_blocks):
        blocks = met[k] if met else range(inp_blocks)
        place[k, list(blocks)] = np.arange(len(blocks))
    out = np.arange(outputs)[:, None]
    source = out // (outputs // groups) * depth + np.arange(depth)
    block, row = np.divmod(out, bo)
    channel, column = np.divmod(source, bi)
    listed = place[block % out_blocks, channel - block // out_blocks * inp_blocks]
    packed = np.zeros((blocks_of(outputs, bo), most, height, width, bo, bi), np.int16)
    packed[block, listed, :, :, row, column] = weights.transpose(0, 3, 1, 2)
    return packed


def split_weights(
    packed: NDArray[np.int16], most: int
) -> tuple[NDArray[np.int8], tuple[Place, ...], NDArray[np.int8]]:
    """Write blocks as sums of int8 blocks.

    Parameters
    ----------
    packed : ndarray of int16, shape (K, C, KH, KW, block_out, block_in)
        -255..255: uint8 weights less their zero point.
    most : int
        Blocks that may stand in the list.

    Returns
    -------
    parts : ndarray of int8, shape (K, C, parts, KH, KW, block_out, block_in)
        One part where the list takes what is left of it, else as many as there need to be.
    listed : tuple of Place
        Ascending; a block that needs two more stands there twice.
    blocks : ndarray of int8, shape (listed, block_out, block_in)
    """
    parts: list[NDArray[np.int8]] = []
    rest = packed
    while not parts or rest.any():
        parts.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - parts[-1]
    found = [
        ((int(k), int(c), int(y), int(x)), part[k, c, y, x])
        for part in parts[1:]
        for k, c, y, x in np.argwhere(part.any(axis=(4, 5)))
    ]
    if len(found) > most:
        return np.stack(parts, axis=2), (), np.zeros((0, *packed.shape[4:]), np.int8)
    found.sort(key=lambda item: item[0])
    blocks = np.array([block for _, block in found], np.int8).reshape(-1, *packed.shape[4:])
    return parts[0][:, :, None], tuple(place for place, _ in found), blocks


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
