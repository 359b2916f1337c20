"""What is chosen about a convolution that was not tuned: rules, from what was measured once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from vdla.compiler.targets.cpu.target import Target

from .choice import DIRECT, GROUPS, Choice
from .define.site import Site
from .direct import Layer
from .dots import dot_algorithms
from .matrix import MATRIX_TILES, MOST_BLOCK_BYTES, Grid, takes_matrices
from .tiles import (
    CACHE_BYTES,
    Tile,
    most_pixels,
    pixel_tile,
    reduction_block,
    rows_at_once,
    tile_cycles,
)
from .winograd import ALGORITHMS, takes_winograd

__all__ = ["default_choice", "default_unrolled"]

_MOST_WEIGHT_BYTES = 16 << 20
"""Of transformed weights: reading more takes longer than the products that they spare."""
_FEW_BLOCKS = 4
"""So few blocks do not keep threads busy: each step is then spread over them by itself."""
_LEAST_GAIN = 2.0
"""Of tile registers over vectors, in products alone: their sums go through memory."""
_UNROLLED, _WINDOW_UNROLLED = 4, 8
"""Steps of a reduction whose loads may overlap the sums before them; of windows of floats."""
_WINDOW_BLOCK = 256
"""Most input channels side by side, of windows of floats. The loop over a block ends once for each
pixel of the window, which the processor often guesses wrong: with 16 channels, convolutions of
3 x 3 took 3 to 8 % longer. Integers and windows of one pixel gained nothing."""
_NEAR_IMAGE_BYTES = {"x86-64": 4 << 20}
"""An image that a third-level cache holds, by the architectures that have one. Each group of
channels reads all of it: in blocks of rows, a convolution of 7 x 7 took 15 % longer, and none
less."""


def default_choice(site: Site, target: Target, without: Collection[str] = ()) -> Choice:
    """Return how a convolution is computed where no record says it.

    Parameters
    ----------
    site : Site
        For which `takes_direct` holds.
    target : Target
    without : collection of str
        Keys of `vdla.compiler.cpu.pipeline.STEPS` to leave out.
    """
    algorithm = None if "winograd" in without else _winograd_for(site)
    if algorithm is not None:
        return _winograd_choice(site, algorithm, target)
    if "pairs" in without:
        return _tiled_choice(site, DIRECT, target)
    dots = dot_algorithms(site, target)
    choice = _tiled_choice(site, dots[0] if dots else DIRECT, target)
    if not takes_matrices(site, target):
        return choice
    by_matrices = _matrix_choice(site)
    gain = _vector_cycles(site, choice, target) / Grid.of(Layer.of(site), by_matrices).cycles
    return by_matrices if gain >= _LEAST_GAIN else choice


def default_unrolled(steps: int, most: int = _UNROLLED) -> int:
    """Return how many steps of a loop of so many are unrolled: all of few, or some."""
    if steps <= _UNROLLED:
        return steps
    return next((some for some in (most, _UNROLLED) if steps % some == 0), 1)


def _winograd_for(site: Site) -> str | None:
    """Return what takes the fewest products for a node, None where a direct one does better."""
    if not takes_winograd(site):
        return None
    depth, outputs = site.tensors[0].shape[3], site.output.shape[3]
    products = {
        name: prod(by.tiles(site)) * by.read**2
        for name, by in ALGORITHMS.items()
        if by.weight_bytes(depth, outputs) <= _MOST_WEIGHT_BYTES
    }
    return min(products, key=products.__getitem__, default=None)


def _winograd_choice(site: Site, algorithm: str, target: Target) -> Choice:
    """Return blocks of rows that read the fewest bytes from beyond the cache.

    Each block reads all weights, from beyond the cache where they do not fit it; a block that does
    not fit it is itself written and read there.
    """
    by, depth, vectors = ALGORITHMS[algorithm], site.tensors[0].shape[3], 2
    lanes = vectors * target.lanes(32)
    (rows, columns), outputs = by.tiles(site), -(-site.output.shape[3] // lanes) * lanes
    weight_bytes = by.weight_bytes(depth, outputs)
    row_bytes = by.read**2 * 4 * columns * (depth + outputs)

    def beyond(count: int) -> tuple[int, int]:
        blocks = -(-rows // count)
        again = blocks if weight_bytes > CACHE_BYTES else 1
        one = count * row_bytes
        spilled = 2 * blocks * one if one > CACHE_BYTES else 0
        return again * weight_bytes + spilled, count

    at_once = min(range(1, rows + 1), key=beyond)
    block = reduction_block(depth)
    return Choice(
        algorithm=algorithm,
        columns=most_pixels(target),
        vectors=vectors,
        block=block,
        unrolled=default_unrolled(block),
        at_once=0 if site.output.shape[0] * -(-rows // at_once) < _FEW_BLOCKS else at_once,
    )


def _tiled_choice(site: Site, algorithm: str, target: Target) -> Choice:
    """Return the tile, flat or not, that covers the image in fewer cycles."""
    layer, tile = _tiled(Layer.of(site), target)
    depth, group = layer.shape[3], GROUPS[algorithm]
    steps, unrolled = -(-depth // group), _UNROLLED
    if not site.quantized and prod(layer.data.shape[1:3]) > 1:
        steps, unrolled = reduction_block(steps, _WINDOW_BLOCK), _WINDOW_UNROLLED
    else:
        steps = reduction_block(steps)
    choice = Choice(
        algorithm=algorithm,
        flat=layer.flat,
        rows=tile.rows,
        columns=tile.columns,
        vectors=tile.vectors,
        block=group * steps,
        unrolled=default_unrolled(steps, unrolled),
        at_once=0,
    )
    element_bytes = 4 // group
    pixels = prod(layer.surrounded_size) * depth * element_bytes
    near = _NEAR_IMAGE_BYTES.get(target.architecture, 0)
    if layer.dense or layer.flat or pixels <= near:
        return choice
    rows = layer.tile_rows(choice)
    groups = -(-layer.data.shape[0] // (tile.vectors * target.lanes(32)))
    some = rows_at_once(rows, pixels // rows, layer.data.size * element_bytes, groups)
    return replace(choice, at_once=some if some < rows else 0)


def _matrix_choice(site: Site) -> Choice:
    """Return the tiles, and rows at a time, that take the fewest cycles; of equals, the most rows.

    Rows are so few that their sums stay in the cache.
    """
    layer = Layer.of(site)
    found: list[tuple[int, int, Choice]] = []
    for tiles, vectors in MATRIX_TILES:
        height, _ = Grid(layer, 1, tiles, vectors).outputs
        for rows in range(1, height + 1):
            grid = Grid(layer, rows, tiles, vectors)
            if grid.block_bytes > (MOST_BLOCK_BYTES if rows == 1 else MOST_BLOCK_BYTES // 4):
                break
            found.append((grid.cycles, -rows, grid.choice))
    return min(found, key=lambda one: one[:2])[2]


def _vector_cycles(site: Site, choice: Choice, target: Target) -> float:
    """Return the cycles of all products of a tiled choice."""
    layer = Layer.of(site, flat=choice.flat)
    outputs, *taps, depth = map(int, layer.data.shape)
    tile = Tile(choice.rows, choice.columns, choice.vectors)
    steps = prod(taps) * -(-depth // GROUPS[choice.algorithm])
    groups = -(-outputs // (choice.vectors * target.lanes(32)))
    each = tile_cycles(tile, *layer.tiled_size) * choice.vectors
    return layer.output[0] * groups * steps * each


def _tiled(layer: Layer, target: Target) -> tuple[Layer, Tile]:
    found: list[tuple[float, Layer, Tile]] = []
    for one in (layer, replace(layer, flat=True)):
        tile = pixel_tile(*one.tiled_size, target)
        found.append((tile_cycles(tile, *one.tiled_size), one, tile))
    _, layer, tile = min(found, key=lambda one: one[0])
    return layer, tile
