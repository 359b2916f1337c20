"""What a tile of a convolution takes: entries of each scratchpad."""

from __future__ import annotations

from vdla.config import Config

from .conv2d import Conv2d, ConvTile

__all__ = ["fits", "input_window", "param_entries", "threads_of", "weight_entries"]


def input_window(
    conv: Conv2d, out_blocks: int, rows: int, columns: int, in_blocks: int
) -> tuple[int, int, int]:
    """Return the blocks, rows and columns of the input that lie in the scratchpad for a tile."""
    (ky, kx), (dy, dx) = conv.kernel, conv.dilation
    # The inputs of listed products stay until the reduction is through.
    blocks = in_blocks = conv.reduction_blocks if conv.listed else in_blocks
    if conv.grouped and (conv.met or in_blocks == conv.in_per_out):
        blocks = -(-out_blocks // conv.out_per_in) * conv.in_per_out
    width = conv.width + sum(conv.padding[1])
    return (
        blocks,
        (rows - 1) * conv.row_step + (ky - 1) * dy + 1,
        min((columns - 1) * conv.strides[1] + (kx - 1) * dx + 1, width),
    )


def weight_entries(conv: Conv2d, out_blocks: int, in_blocks: int) -> int:
    """Return the weight blocks of some output blocks and a part of the reduction."""
    if conv.shared_weights:
        return conv.out_per_in * in_blocks
    return out_blocks * in_blocks * conv.taps


def param_entries(conv: Conv2d, tile: ConvTile) -> int:
    """Return the requantization parameters that are loaded at a time."""
    if conv.params_by_place:
        return 3 * tile.rows * tile.columns
    return 3 * (tile.out_blocks if tile.params_inside else conv.out_blocks)


def threads_of(conv: Conv2d, tile: ConvTile) -> int:
    """Return how many virtual threads have work."""
    if tile.thread_axis == "none":
        return 1
    tiles = (
        -(-conv.out_blocks // tile.out_blocks)
        if tile.thread_axis == "out"
        else -(-conv.out_height // tile.rows)
    )
    return min(2, tiles)


def fits(conv: Conv2d, tile: ConvTile, config: Config) -> bool:
    """Return whether a tile's buffers fit the scratchpads together."""
    threads = threads_of(conv, tile)
    blocks, rows, columns = input_window(
        conv, tile.out_blocks, tile.rows, tile.columns, tile.in_blocks
    )
    outside = tile.weights_outside
    weights = weight_entries(
        conv, tile.out_blocks, conv.reduction_blocks if outside else tile.in_blocks
    )
    copies = 1 if outside and tile.thread_axis == "rows" else threads
    params = param_entries(conv, tile) * (threads if tile.params_inside else 1)
    results = tile.out_blocks * tile.rows * tile.columns * threads
    other = results if conv.added_passes else 0
    identity = 1 if conv.added_passes else 0  # the weights that bring the addend to ACC
    return (
        blocks * rows * columns * threads + other <= config.inp_depth
        and weights * copies + len(conv.listed) + identity <= config.wgt_depth
        and results + other + params + 3 * conv.added_sets <= config.acc_depth
    )
