"""The tiles of an operator that may pay, and what the blocks of each do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, TypeAlias

from vdla.compiler.targets.gpu.limits import BLOCK_THREADS, SHARED_BYTES

from .convolution_tiles import ConvolutionTile
from .estimate import Work, registers_of, seconds_of
from .fetch import LANES, step_of
from .product import ProductTile

__all__ = [
    "ConvolutionSums",
    "ProductSums",
    "Sums",
    "Tile",
    "in_one_piece",
    "point_of",
    "tiles_of",
]

Tile: TypeAlias = ProductTile | ConvolutionTile

_OWN = (1, 2, 4, 8)
"""Elements that a thread computes along an axis."""
_THREADS = tuple(1 << k for k in range(9))
_LEAST_THREADS, _MOST_THREADS = 32, min(256, BLOCK_THREADS)
"""Of a block: a warp, unless the operator has fewer elements, and what any device has room for."""
_DEPTHS = (1, 2, 4, 8, 16, 32)
_UNROLLED = 1024
"""Multiplications of a step that are written out, at the most: compilers take long for more."""
_MOST_REGISTERS = 128
"""Of a thread, so that 512 of them fit a multiprocessor of NVIDIA's."""
_SLOWER, _MOST_TILES = 3.0, 1024
"""Tiles of which the estimate is so many times the least are left out, and those beyond so many."""
_SERVED = 8
"""Threads whose vectors shared memory gives at a time, a quarter of a warp."""
_ROW = 8
"""Elements that blocks write side by side, at the least: memory comes in 32 bytes."""


@dataclass(frozen=True, kw_only=True)
class ProductSums:
    """The sums of a product of matrices.

    Attributes
    ----------
    batch, rows, columns : int
        Of the output.
    terms : int
        Of each sum; words of four where they are integers of 8 bits.
    """

    batch: int
    rows: int
    columns: int
    terms: int

    def tiles(self) -> Iterator[ProductTile]:
        """Yield tiles no larger than the matrices, whatever they take."""
        for own in product(_OWN, _OWN):
            for threads in _threads(own, (self.columns, self.rows)):
                pieces = _pieces(own, threads)
                for depth, (across, down) in product(_depths(self.terms), pieces):
                    yield ProductTile(
                        threads=threads,
                        columns=own[0],
                        rows=own[1],
                        depth=depth,
                        virtual_columns=across,
                        virtual_rows=down,
                    )

    def work(self, tile: Tile) -> Work:
        """Return what the blocks of a tile do."""
        assert isinstance(tile, ProductTile)
        across, down = tile.threads
        wide, high = across * tile.columns, down * tile.rows
        return Work(
            blocks=self.batch * -(-self.rows // high) * -(-self.columns // wide),
            threads=across * down,
            steps=-(-self.terms // tile.depth),
            products=tile.rows * tile.columns * tile.depth,
            reads=_reads(tile.depth, tile.rows, tile.columns, tile.virtual_columns),
            fetched=(wide + high) * tile.depth,
            sums=tile.rows * tile.columns,
            operands=tile.rows + tile.columns,
        )


@dataclass(frozen=True, kw_only=True)
class ConvolutionSums:
    """The sums of a convolution.

    Attributes
    ----------
    output : tuple of int
        NHWC.
    window, strides, dilation : tuple of int
        Along rows and columns.
    terms : int
        Channels of the input; words of four where they are integers of 8 bits.
    """

    output: tuple[int, ...]
    window: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    terms: int

    def tiles(self) -> Iterator[ConvolutionTile]:
        """Yield tiles no larger than the output, whatever they take."""
        _, height, width, outputs = self.output
        for own in product(_OWN, _OWN):
            for threads in _threads((*own, 1), (outputs, width, height)):
                pieces = _pieces(own, threads)
                for depth, (across, wide) in product(_depths(self.terms), pieces):
                    yield ConvolutionTile(
                        threads=threads,
                        channels=own[0],
                        columns=own[1],
                        depth=depth,
                        virtual_channels=across,
                        virtual_columns=wide,
                    )

    def work(self, tile: Tile) -> Work:
        """Return what the blocks of a tile do."""
        assert isinstance(tile, ConvolutionTile)
        batch, height, width, outputs = self.output
        across, wide, high = tile.threads
        channels, columns = across * tile.channels, wide * tile.columns
        blocks = -(-height // high) * -(-width // columns) * -(-outputs // channels)
        patch = prod(
            (count - 1) * stride + (taps - 1) * dilation + 1
            for count, taps, stride, dilation in zip(
                (high, columns), self.window, self.strides, self.dilation, strict=True
            )
        )
        taps, sums = prod(self.window), tile.channels * tile.columns
        return Work(
            blocks=batch * blocks,
            threads=prod(tile.threads),
            steps=-(-self.terms // tile.depth),
            products=sums * tile.depth * taps,
            reads=_reads(tile.depth, tile.columns, tile.channels, tile.virtual_channels) * taps,
            fetched=(patch + taps * channels) * tile.depth,
            sums=sums,
            operands=tile.channels + tile.columns,
        )


Sums: TypeAlias = ProductSums | ConvolutionSums


def tiles_of(sums: Sums, default: Tile) -> list[Tile]:
    """Return the tiles that may pay, the default one first.

    They fit a block's shared memory and threads and a thread's registers, are no larger than the
    operator, and their estimates are no more than three times the least, and among the 1,024 least.
    """
    costs = {tile: seconds_of(sums.work(tile)) for tile in sums.tiles() if _fits(sums, tile)}
    most = _SLOWER * min(costs.values(), default=0.0)
    found = sorted((tile for tile, cost in costs.items() if cost <= most), key=costs.__getitem__)
    return list(dict.fromkeys([default, *found[:_MOST_TILES]]))


def in_one_piece(tile: Tile) -> Tile:
    """Return a tile without virtual threads."""
    if isinstance(tile, ProductTile):
        return replace(tile, virtual_columns=1, virtual_rows=1)
    return replace(tile, virtual_channels=1, virtual_columns=1)


def point_of(tile: Tile) -> dict[str, int]:
    """Return a tile as a point of a space, its threads one by one."""
    names = ("across", "down") if isinstance(tile, ProductTile) else ("across", "wide", "high")
    own = {name: value for name, value in vars(tile).items() if name != "threads"}
    return {**dict(zip(names, tile.threads, strict=True)), **own}


def _fits(sums: Sums, tile: Tile) -> bool:
    work = sums.work(tile)
    return (
        work.shared_bytes <= SHARED_BYTES
        and registers_of(work) <= _MOST_REGISTERS
        and work.sums * tile.depth <= _UNROLLED
    )


def _threads(own: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield threads along each axis, the innermost first, whose last ones have something to do."""
    needed = [-(-size // count) for size, count in zip(sizes, own, strict=True)]
    if any(count > 1 and size < count for size, count in zip(sizes, own, strict=True)):
        return
    options = [sorted({min(threads, most) for threads in _THREADS}) for most in needed]
    least = min(_LEAST_THREADS, prod(needed))
    for threads in product(*options):
        row = threads[0] * own[0]
        if least <= prod(threads) <= _MOST_THREADS and row >= min(_ROW, sizes[0]):
            yield threads


def _depths(terms: int) -> list[int]:
    """Return lengths of steps."""
    return sorted({step_of(terms, most) for most in _DEPTHS})


def _pieces(own: tuple[int, int], threads: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield in how many pieces a thread's elements may lie along the first two axes.

    Along the inner one, in one piece or in vectors. Along the other one, singly, where the threads
    that are served at a time stand at several places of it.
    """
    across, down, *_ = threads
    inner = (1, own[0] // LANES) if own[0] > LANES and across > 1 else (1,)
    outer = (1, own[1]) if own[1] > 1 and down > 1 and across < _SERVED else (1,)
    return product(inner, outer)


def _reads(depth: int, rows: int, columns: int, pieces: int) -> float:
    """Return reads of shared memory in a step: of rows along the terms, of columns across them.

    Threads that follow each other read vectors across as far apart as their pieces are long: of
    two vectors in a piece, half of them lie in the same banks, and take twice as long.
    """
    vectors = -(-columns // LANES)
    return rows * -(-depth // LANES) + depth * vectors * max(1, vectors // pieces)
