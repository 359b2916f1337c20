"""Tiles of direct convolutions: how large, by shape and by what shared memory holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod
from typing import Any

from vdla.compiler.targets.gpu.limits import SHARED_BYTES
from vdla.errors import LoweringError

from .fetch import ENOUGH_BLOCKS, LANES, step_of

__all__ = ["ConvolutionTile", "default_convolution_tile", "default_depthwise_tile"]

_ELEMENT_BYTES = 4
_CHANNELS = 32
"""Of a tile at the most: what the threads of a warp read together."""


@dataclass(frozen=True, kw_only=True)
class ConvolutionTile:
    """How a convolution is shared out.

    Attributes
    ----------
    threads : tuple of int
        Of a block, along channels, columns and rows of the output.
    channels, columns : int
        That each thread computes: as many sums in registers as their product.
    depth : int
        Input channels of a group that a block fetches at a time; of a depthwise convolution, which
        sums up none, columns of the window.
    virtual_channels, virtual_columns : int
        Pieces that a thread's channels and columns lie in, as far apart as its block has channels
        and columns of one piece.
    """

    threads: tuple[int, int, int]
    channels: int
    columns: int
    depth: int
    virtual_channels: int = 1
    virtual_columns: int = 1


def default_convolution_tile(
    output: tuple[int, ...], weight: tuple[int, ...], attrs: Any, groups: int = 1
) -> ConvolutionTile:
    """Return the largest tile that fits, and of which there are enough.

    The largest is of 64 channels and 8 x 16 pixels, 64 sums a thread; the next ones are of 64 and
    4 x 16, 32 sums a thread, of 32 and 4 x 8, 16 sums, and then twice the threads at 8 sums each.
    Of 8 channels a thread has two pieces of 4, so that the vectors of threads that follow each
    other lie in different banks. A tile's channels are some of one
    group, or those of whole groups: a block fetches what its threads need and nothing between.

    Parameters
    ----------
    output : tuple of int
        NHWC.
    weight : tuple of int
        OHWI.
    attrs : mapping
        ``strides`` and ``dilation``.
    groups : int
        Of channels.

    Raises
    ------
    LoweringError
        A window of one channel takes more shared memory than a block has.
    """
    _, rows, columns, inputs = weight
    for tile, enough in _tiles(output, groups, large=inputs % LANES == output[3] % LANES == 0):
        met = max(1, tile.threads[0] * tile.channels * groups // output[3])
        for depth in (inputs,) if met > 1 else (8, 4) if enough else (8, 4, 2, 1):
            made = replace(tile, depth=step_of(inputs, depth))
            taken = _bytes(made, (rows, columns), attrs, met * made.depth, made.depth)
            if taken <= SHARED_BYTES and (not enough or _blocks(made, output) >= ENOUGH_BLOCKS):
                return made
    raise _too_large(rows, columns)


def _tiles(
    output: tuple[int, ...], groups: int, *, large: bool
) -> Iterator[tuple[ConvolutionTile, bool]]:
    """Yield tiles, the largest first, and whether each is worth it only if there are enough.

    Large ones are for whole vectors: with elements fetched one by one a thread's registers would
    not do.
    """
    _, height, width, outputs = output
    for most, own, high, pieces in ((64, 8, 8, 2), (64, 8, 4, 1), (32, 4, 4, 1)):
        threads, channels = _along_channels(outputs, groups, most)
        wide = min(2, -(-width // own))
        if large and channels == LANES and threads % pieces == 0 and own <= width:
            tile = _tile((threads // pieces, wide, min(high, height)), pieces * channels, own)
            yield replace(tile, virtual_channels=pieces), True
    threads, channels = _along_channels(outputs, groups)
    across = min(2, width)
    for high, wide in product((4, 2, 1), (4, 2, 1)):
        yield (
            _tile((threads, min(wide, -(-width // across)), min(high, height)), channels, across),
            False,
        )


def _tile(threads: tuple[int, int, int], channels: int, columns: int) -> ConvolutionTile:
    return ConvolutionTile(threads=threads, channels=channels, columns=columns, depth=1)


def _blocks(tile: ConvolutionTile, output: tuple[int, ...]) -> int:
    batch, height, width, outputs = output
    across, wide, high = tile.threads
    sizes = (high, wide * tile.columns, across * tile.channels)
    pairs = zip((height, width, outputs), sizes, strict=True)
    return batch * prod(-(-extent // size) for extent, size in pairs)


def default_depthwise_tile(
    output: tuple[int, ...], weight: tuple[int, ...], attrs: Any
) -> ConvolutionTile:
    """Return a tile, of 32 channels and 4 x 16 pixels at the most, that leaves half of the memory.

    Two blocks fit a multiprocessor then, and one computes while the other reads.

    Parameters
    ----------
    output : tuple of int
        NHWC.
    weight : tuple of int
        1HWO.
    attrs : mapping
        ``strides`` and ``dilation``.

    Raises
    ------
    LoweringError
        A window takes more shared memory than that.
    """
    _, height, width, outputs = output
    _, rows, columns, _ = weight
    across = min(4, width)
    for most, high, wide in product((_CHANNELS, 8, 1), (4, 2, 1), (4, 2, 1)):
        threads, channels = _along_channels(outputs, 1, most)
        tile = ConvolutionTile(
            threads=(threads, min(wide, -(-width // across)), min(high, height)),
            channels=channels,
            columns=across,
            depth=columns,
        )
        if _bytes(tile, (rows, columns), attrs, threads * channels, 1) <= SHARED_BYTES // 2:
            return tile
    raise _too_large(rows, columns)


def _along_channels(outputs: int, groups: int, most: int = _CHANNELS) -> tuple[int, int]:
    """Return how many threads share the channels of a tile, and how many of them each computes."""
    each = outputs // groups
    if groups == 1:
        channels = min(4, outputs, most)
        return min(most // channels, -(-outputs // channels)), channels
    if each > most:
        tile = max(size for size in range(1, most + 1) if each % size == 0)
    else:
        tile = min(most // each * each, outputs)
    channels = gcd(4, tile)
    return tile // channels, channels


def _bytes(
    tile: ConvolutionTile, window: tuple[int, int], attrs: Any, fetched: int, terms: int
) -> int:
    """Return what a tile takes of shared memory.

    Parameters
    ----------
    tile : ConvolutionTile
    window : tuple of int
    attrs : mapping
    fetched : int
        Channels of the image.
    terms : int
        Weights of each tap and output.
    """
    across, wide, high = tile.threads
    pixels = (high, wide * tile.columns)
    patch: int = prod(
        (count - 1) * stride + (taps - 1) * dilation + 1
        for count, taps, stride, dilation in zip(
            pixels, window, attrs["strides"], attrs["dilation"], strict=True
        )
    )
    weights = prod(window) * across * tile.channels * terms
    return (patch * fetched + weights) * _ELEMENT_BYTES


def _too_large(rows: int, columns: int) -> LoweringError:
    return LoweringError(
        f"A window and its weights must fit {SHARED_BYTES:,} bytes of shared memory for one input "
        f"channel, and those of {rows} x {columns} do not: leave the operator on the processor."
    )
