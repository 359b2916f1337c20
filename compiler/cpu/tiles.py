"""How much of a convolution stays in registers at a time."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.targets.cpu.target import Target

__all__ = ["Tile", "lanes_of", "most_pixels", "pixel_tile", "reduction_block"]

_LATENCY = 4
"""Cycles from an FMA to the next one on the same sum; two begin each cycle."""


@dataclass(frozen=True)
class Tile:
    """A register tile: rows by columns of pixels, each of as many channels as lanes."""

    rows: int
    columns: int


def lanes_of(target: Target, bits: int = 32) -> int:
    """Return the output channels of a tile: two vectors, so that what is broadcast serves two."""
    return 2 * target.lanes(bits)


def most_pixels(target: Target) -> int:
    """Return the pixels whose sums, two vectors each, leave room for weights and a pixel."""
    return (target.vector_registers - 3) // 2


def _steps(pixels: int) -> int:
    """Return the cycles of one step of a tile's reduction: two vectors a pixel, two a cycle."""
    return max(pixels, _LATENCY)


def _line(extent: int, tile: int) -> list[int]:
    whole, rest = divmod(extent, tile)
    return [tile] * whole + [rest] * bool(rest)


def pixel_tile(height: int, width: int, target: Target) -> Tile:
    """Return the tile that covers an image in the fewest cycles; of equals, the largest.

    A tile at an edge that is smaller than the latency of its sums costs as much as one that fills
    it: for 14 columns, tiles of 4 take 4 + 4 + 4 + 4 cycles, tiles of 5 take 5 + 5 + 4.
    """
    most = most_pixels(target)
    best: tuple[float, int, int] | None = None
    found = Tile(1, 1)
    for rows in range(1, min(height, most) + 1):
        for columns in range(1, min(width, most // rows) + 1):
            cycles = sum(
                _steps(h * w)
                for h in set(_line(height, rows))
                for w in set(_line(width, columns))
                for _ in range(_line(height, rows).count(h) * _line(width, columns).count(w))
            )
            key = (cycles, -rows * columns, rows)
            if best is None or key < best:
                best, found = key, Tile(rows, columns)
    return found


def reduction_block(channels: int, most: int = 16) -> int:
    """Return how many input channels lie side by side: a divisor, so that none is made up."""
    block = max(k for k in range(1, most + 1) if channels % k == 0)
    return channels if block < 4 and channels <= 4 * most else block
