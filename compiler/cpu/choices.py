"""Every choice about a convolution that may pay, and an estimate of the time that each takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from vdla.compiler.targets.cpu.target import Target

from .choice import DIRECT, GROUPS, MATRICES, PAIRS, Choice
from .defaults import default_choice, default_unrolled
from .define.site import Site
from .direct import Layer
from .dots import dot_algorithms
from .matrix import MATRIX_TILES, MOST_BLOCK_BYTES, Grid, takes_matrices
from .tiles import CACHE_BYTES, Tile, most_pixels, reduction_block, tile_cycles
from .winograd import ALGORITHMS, Algorithm, takes_winograd

__all__ = ["Choices"]

CLOCK_HZ = 3e9
"""That estimates are given in seconds of: what it is does not change their order."""
_SLOWER = 1.1
"""Tiles whose products alone take so much longer than the best's are left out."""
_VECTORS = (1, 2, 4)
_BLOCKS = (8, 16, 64)
_UNROLLED = (4, 8)
_AT_ONCE = (0, 1, 4, 16)
_MATRIX_ROWS = (1, 2, 4, 7, 8, 14, 16, 28, 32)
_MATRICES_SLOWER = 1.5
"""What `_SLOWER` is of tile registers, whose loads and stores count as much as products."""
_ROWS_AT_ONCE = (0, 1, 2, 4, 8)
"""Of Winograd's tiles."""
_MOST_WEIGHT_BYTES = 64 << 20
"""Of weights that Winograd's algorithm transforms: beyond it none was ever the faster."""
_NEAR_BYTES, _FAR_BYTES = 20.0, 6.0
"""Bytes a cycle from the third-level cache, and to or from beyond what a pass leaves in it."""
_STEP_CYCLES, _VISIT_CYCLES = 1.0, 4.0
"""Of a turn of the innermost loop, and of the loops around it."""


@dataclass(frozen=True, eq=False)
class Choices:
    """What may be chosen about one convolution.

    Parameters
    ----------
    site : Site
    target : Target
    threads : int
    """

    site: Site
    target: Target
    threads: int = 1

    @cached_property
    def default(self) -> Choice:
        """The choice by rules."""
        return default_choice(self.site, self.target)

    def every(self) -> list[Choice]:
        """Return all choices, the default one first."""
        found = dict.fromkeys([self.default])
        if takes_winograd(self.site):
            for name, by in ALGORITHMS.items():
                if by.weight_bytes(self._depth, self._outputs) <= _MOST_WEIGHT_BYTES:
                    found.update(dict.fromkeys(self._winograd(name, by)))
        if takes_matrices(self.site, self.target):
            found.update(dict.fromkeys(self._matrices()))
        dots = dot_algorithms(self.site, self.target)
        for name in dots if PAIRS in dots else [*dots, DIRECT]:
            found.update(dict.fromkeys(self._tiled(name)))
        return list(found)

    def seconds(self, choice: Choice) -> float:
        """Return an estimate of the time that a choice takes: products, loops, bytes moved."""
        by = ALGORITHMS.get(choice.algorithm)
        if choice.algorithm == MATRICES:
            cycles, chunks = self._matrix_cycles(choice)
        else:
            cycles, chunks = self._tiled_cycles(choice) if by is None else self._by(choice, by)
        turns = -(-chunks // self.threads)
        return cycles * turns / chunks / CLOCK_HZ

    @property
    def _depth(self) -> int:
        return int(self._layer.shape[3])

    @property
    def _outputs(self) -> int:
        return int(self.site.output.shape[-1])

    @cached_property
    def _layer(self) -> Layer:
        return Layer.of(self.site)

    def _groups(self, vectors: int) -> int:
        return -(-self._outputs // (vectors * self.target.lanes(32)))

    def _tiled(self, algorithm: str) -> Iterator[Choice]:
        group = GROUPS[algorithm]
        count = -(-self._depth // group)
        steps = self._steps(count, reduction_block(count))
        for flat, tile in self._tiles():
            layer = Layer.of(self.site, flat=flat)
            for some in steps:
                for unrolled in _unrolled(some):
                    choice = Choice(
                        algorithm=algorithm,
                        flat=flat,
                        rows=tile.rows,
                        columns=tile.columns,
                        vectors=tile.vectors,
                        block=group * some,
                        unrolled=unrolled,
                        at_once=0,
                    )
                    rows = layer.tile_rows(choice)
                    for at_once in (one for one in _AT_ONCE if one < rows):
                        yield replace(choice, at_once=at_once)

    def _tiles(self) -> list[tuple[bool, Tile]]:
        """Return register tiles, flat or not, whose products take little longer than the best's."""
        costs: dict[tuple[bool, Tile], float] = {}
        for flat in (False, True):
            height, width = Layer.of(self.site, flat=flat).tiled_size
            if flat and (self._layer.dense or self._layer.output[1] == 1):
                continue
            for vectors in _VECTORS:
                most = most_pixels(self.target, vectors)
                for rows in range(1, min(height, most) + 1):
                    for columns in range(1, min(width, most // rows) + 1):
                        tile = Tile(rows, columns, vectors)
                        cycles = tile_cycles(tile, height, width)
                        costs[flat, tile] = cycles * self._groups(vectors) * vectors
        best = min(costs.values())
        return [one for one, cost in costs.items() if cost <= _SLOWER * best]

    def _steps(self, depth: int, default: int) -> list[int]:
        blocks = {size for size in _BLOCKS if depth % size == 0 and size <= depth}
        return sorted(blocks | {default})

    def _winograd(self, name: str, by: Algorithm) -> Iterator[Choice]:
        rows, columns = by.tiles(self.site)
        lanes = self.target.lanes(32)
        costs = {
            Tile(1, pixels, vectors): tile_cycles(Tile(1, pixels, vectors), 1, rows * columns)
            * self._groups(vectors)
            * vectors
            for vectors in _VECTORS
            for pixels in range(1, min(rows * columns, most_pixels(self.target, vectors)) + 1)
        }
        best = min(costs.values())
        for tile in (tile for tile, cost in costs.items() if cost <= _SLOWER * best):
            for block in self._steps(self._depth, lanes if self._depth % lanes == 0 else 1):
                if self._depth % block or block % lanes:
                    continue
                for unrolled in _unrolled(block):
                    for at_once in (one for one in _ROWS_AT_ONCE if one < rows):
                        yield Choice(
                            algorithm=name,
                            columns=tile.columns,
                            vectors=tile.vectors,
                            block=block,
                            unrolled=unrolled,
                            at_once=at_once,
                        )

    def _matrices(self) -> Iterator[Choice]:
        """Return all tiles, and some rows at a time, whose products take little longer."""
        height, _ = Grid(self._layer, 1, 1, 1).outputs
        found = {
            grid.choice: grid.cycles
            for tiles, vectors in MATRIX_TILES
            for rows in {min(rows, height) for rows in (*_MATRIX_ROWS, height)}
            for grid in [Grid(self._layer, rows, tiles, vectors)]
            if grid.block_bytes <= MOST_BLOCK_BYTES
        }
        best = min(found.values())
        yield from (one for one, cycles in found.items() if cycles <= _MATRICES_SLOWER * best)

    def _matrix_cycles(self, choice: Choice) -> tuple[float, int]:
        """Return cycles on one thread, and the parts that threads share."""
        layer = self._layer
        grid, batch = Grid.of(layer, choice), layer.output[0]
        weights = float(layer.data.size)
        pixels = float(batch * prod(grid.phases) * grid.positions * self._depth)
        again = grid.blocks if weights > CACHE_BYTES // 2 else 1
        visits = grid.groups if pixels / grid.blocks / batch > CACHE_BYTES // 2 else 1
        moved = weights / _FAR_BYTES + weights * (again - 1) / _NEAR_BYTES
        moved += pixels * (2 + visits) / _NEAR_BYTES
        chunks = batch * grid.blocks * grid.groups
        spilled = 2 * chunks * grid.block_bytes if grid.block_bytes > CACHE_BYTES // 2 else 0
        return grid.cycles + moved + spilled / _NEAR_BYTES, chunks

    def _tiled_cycles(self, choice: Choice) -> tuple[float, int]:
        """Return cycles on one thread, and the parts that threads share."""
        layer = Layer.of(self.site, flat=choice.flat)
        batch, taps = layer.output[0], prod(layer.data.shape[1:3])
        group = GROUPS[choice.algorithm]
        tile = Tile(choice.rows, choice.columns, choice.vectors)
        height, width = layer.tiled_size
        groups = self._groups(choice.vectors)
        steps = taps * -(-self._depth // group)
        products = batch * tile_cycles(tile, height, width) * groups * choice.vectors * steps
        tiles = batch * groups * -(-height // tile.rows) * -(-width // tile.columns)
        turns = tiles * steps / choice.unrolled * _STEP_CYCLES
        turns += tiles * steps * group / choice.block * _VISIT_CYCLES
        rows = layer.tile_rows(choice)
        blocks = -(-rows // (choice.at_once or rows))
        size = 4 // group
        weights = float(layer.data.size * size)
        pixels = float(batch * prod(layer.surrounded_size) * self._depth * size)
        again = blocks if weights > CACHE_BYTES // 2 else 1
        visits = groups if pixels / blocks / batch > CACHE_BYTES // 2 else 1
        moved = weights / _FAR_BYTES + weights * (again - 1) / _NEAR_BYTES
        moved += pixels * (2 + visits) / _NEAR_BYTES
        return products + turns + moved, batch * blocks * groups

    def _by(self, choice: Choice, by: Algorithm) -> tuple[float, int]:
        rows, columns = by.tiles(self.site)
        batch, places = self._layer.output[0], by.read**2
        groups, vector = self._groups(choice.vectors), self.target.lanes(32)
        at_once = choice.at_once or rows
        blocks = -(-rows // at_once)
        tile = Tile(1, choice.columns, choice.vectors)
        step = tile_cycles(tile, 1, at_once * columns) * groups * choice.vectors * places
        products = batch * blocks * step * self._depth
        visits = batch * blocks * places * groups * -(-at_once * columns // choice.columns)
        turns = visits * self._depth * (_STEP_CYCLES / choice.unrolled)
        turns += visits * self._depth / choice.block * _VISIT_CYCLES
        vectors = -(-self._depth // vector) + groups * choice.vectors
        transforms = batch * rows * columns * vectors * places * 2.5
        weights = float(by.weight_bytes(self._depth, groups * choice.vectors * vector))
        again = blocks if weights > CACHE_BYTES else 1
        one = 4.0 * places * at_once * columns * (self._depth + groups * choice.vectors * vector)
        spilled = 2 * batch * blocks * one if one > CACHE_BYTES else 0.0
        moved = weights / _FAR_BYTES + (weights * (batch * again - 1) + spilled) / _NEAR_BYTES
        chunks = batch * blocks if choice.at_once else batch * groups * rows
        return products + turns + transforms + moved, chunks


def _unrolled(steps: int) -> list[int]:
    """Return how many steps may be unrolled of a loop of so many."""
    return [some for some in _UNROLLED if steps % some == 0] or [default_unrolled(steps)]
