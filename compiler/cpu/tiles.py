"""How much of a convolution stays in registers, and in the cache, at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from vdla.compiler.targets.cpu.target import Target

__all__ = [
    "CACHE_BYTES",
    "Tile",
    "most_pixels",
    "pixel_tile",
    "reduction_block",
    "rows_at_once",
    "tile_cycles",
]

CACHE_BYTES = 512 << 10
"""A second-level cache: what is larger is read again from further away."""
_LATENCY = 4
"""Cycles from an FMA to the next one on the same sum; two begin each cycle."""
_LOADS = 1.65
"""Vectors and broadcast values that arrive in a cycle, measured on a Zen 3."""


@dataclass(frozen=True)
class Tile:
    """A register tile: rows by columns of pixels, each of some vectors of channels."""

    rows: int
    columns: int
    vectors: int = 2


def most_pixels(target: Target, vectors: int = 2) -> int:
    """Return the pixels whose sums leave registers for weights and a pixel."""
    return (target.vector_registers - vectors - 1) // vectors


def _cycles(pixels: int, vectors: int) -> float:
    """Return the cycles of one step of a tile's reduction."""
    return max(pixels * vectors / 2, _LATENCY, (pixels + vectors) / _LOADS)


def _line(extent: int, tile: int) -> Counter[int]:
    whole, rest = divmod(extent, tile)
    return Counter({tile: whole}) + Counter({rest: 1} if rest else {})


def tile_cycles(tile: Tile, height: int, width: int) -> float:
    """Return the cycles of one step of the reductions of all pixels, for one vector of channels.

    A tile at an edge that is smaller than the latency of its sums costs as much as one that fills
    it: of two vectors, 14 columns in tiles of 4 take 4 + 4 + 4 + 4 cycles.
    """
    cycles = sum(
        _cycles(h * w, tile.vectors) * times * often
        for h, times in _line(height, tile.rows).items()
        for w, often in _line(width, tile.columns).items()
    )
    return cycles / tile.vectors


def pixel_tile(height: int, width: int, target: Target) -> Tile:
    """Return the tile that covers an image in the fewest cycles; of equals, the largest.

    One vector a pixel lets 14 pixels stay in 16 registers, but then each FMA needs a load.
    """

    def cost(tile: Tile) -> tuple[float, int, int, int]:
        cycles = tile_cycles(tile, height, width)
        return cycles, -tile.vectors, -tile.rows * tile.columns, tile.rows

    return min(_tiles(height, width, target), key=cost)


def _tiles(height: int, width: int, target: Target) -> Iterator[Tile]:
    for vectors in (1, 2):
        most = most_pixels(target, vectors)
        for rows in range(1, min(height, most) + 1):
            for columns in range(1, min(width, most // rows) + 1):
                yield Tile(rows, columns, vectors)


def reduction_block(channels: int, most: int = 16) -> int:
    """Return how many input channels lie side by side: a divisor, so that none is made up."""
    block = max(k for k in range(1, most + 1) if channels % k == 0)
    return channels if block < 4 and channels <= 4 * most else block


def rows_at_once(rows: int, row_bytes: int, weight_bytes: int, groups: int) -> int:
    """Return how many rows of tiles all channels are computed for before the next ones.

    Few, so that their pixels stay in the cache while one group of channels after another reads
    them; or all, so that the weights of a group do, which are then read once.

    Parameters
    ----------
    rows : int
    row_bytes : int
        Of the pixels that one row of tiles reads.
    weight_bytes : int
        Of all groups.
    groups : int
    """
    half = CACHE_BYTES // 2

    def beyond(count: int) -> tuple[int, int]:
        blocks = -(-rows // count)
        weights = weight_bytes * (blocks if weight_bytes > half else 1)
        pixels = rows * row_bytes * (groups if count * row_bytes > half else 1)
        return weights + pixels, -count

    return min(range(1, rows + 1), key=beyond)
