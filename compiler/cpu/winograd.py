"""Winograd's convolutions: F(4x4, 3x3) takes 36 products where a direct one takes 144.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import (
    Expr,
    IterVar,
    Schedule,
    Stage,
    Tensor,
    reduce_axis,
    select,
    sum_over,
)
from vdla.compiler.te.expr import as_expr

from .choice import WINOGRAD_2, WINOGRAD_4, Choice
from .define.site import Array, Site
from .define.windows import finished
from .direct import Layer, schedule_packed, takes_direct
from .tuned import Tuned, parallel, unroll_all, unrolled_steps

__all__ = [
    "ALGORITHMS",
    "F2",
    "F4",
    "Algorithm",
    "combined",
    "takes_winograd",
    "transformed_weights",
    "winograd_convolution",
]


Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Algorithm:
    """F(tile x tile, 3 x 3), by its matrices.

    Parameters
    ----------
    tile : int
        Rows and columns of outputs at once; two more are read for them.
    of_image, of_sums, of_weights : matrix
        B', A' and G.
    """

    tile: int
    of_image: Matrix
    of_sums: Matrix
    of_weights: Matrix

    @property
    def read(self) -> int:
        """Rows and columns of pixels that a tile reads."""
        return self.tile + 2

    def tiles(self, site: Site) -> tuple[int, int]:
        """Return how many rows and columns of tiles a node's outputs are."""
        _, height, width, _ = site.output.shape
        return -(-height // self.tile), -(-width // self.tile)

    def weight_bytes(self, depth: int, outputs: int) -> int:
        """Return the bytes of transformed weights."""
        return 4 * self.read**2 * depth * outputs


F4 = Algorithm(
    4,
    (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    (
        (1, 1, 1, 1, 1, 0),
        (0, 1, -1, 2, -2, 0),
        (0, 1, 1, 4, 4, 0),
        (0, 1, -1, 8, -8, 1),
    ),
    (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
)
"""From the interpolation points 0, 1, -1, 2, -2 and infinity."""
F2 = Algorithm(
    2,
    ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1)),
    ((1, 1, 1, 0), (0, 1, -1, 1)),
    ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
)
"""From 0, 1, -1 and infinity: more products, fewer weights."""
ALGORITHMS = {WINOGRAD_4: F4, WINOGRAD_2: F2}
"""By the name that a choice has."""
_LEAST_CHANNELS = 8


def takes_winograd(site: Site, dtypes: Sequence[str] = ("float32",)) -> bool:
    """Tell whether a node is a 3 x 3 convolution of floats that steps by one, and not small.

    Parameters
    ----------
    site : Site
    dtypes : sequence of str
        Of the floats.
    """
    if not takes_direct(site) or site.node.op != "conv2d" or site.input(0).dtype not in dtypes:
        return False
    _, rows, columns, depth = site.tensors[1].shape
    attrs = site.attrs
    plain = attrs["strides"] == attrs["dilation"] == (1, 1) and (rows, columns) == (3, 3)
    _, height, width, outputs = site.output.shape
    return plain and min(depth, outputs) >= _LEAST_CHANNELS and min(height, width) >= F4.tile


def transformed_weights(data: Array, by: Algorithm, block: int, lanes: int) -> Array:
    """Return weights OHWI, each G w G', as (read, read, O / lanes, I / block, block, lanes).

    The products are computed in double precision and rounded once.
    """
    g = np.array(by.of_weights)
    outputs, _, _, depth = data.shape
    groups = -(-outputs // lanes)
    packed = np.zeros((3, 3, depth, groups * lanes))
    packed[..., :outputs] = data.transpose(1, 2, 3, 0)
    whole = (np.kron(g, g) @ packed.reshape(9, -1)).astype(np.float32)
    split = whole.reshape(by.read, by.read, depth // block, block, groups, lanes)
    return np.ascontiguousarray(split.transpose(0, 1, 4, 2, 3, 5))


def _combination(row: Sequence[float], term: Callable[[int], Expr]) -> Expr:
    """Return the sum of terms with a row's factors; 0 and 1 cost nothing."""
    total: Expr | None = None
    for k, factor in enumerate(row):
        if factor == 0:
            continue
        one = term(k)
        if total is None:
            total = one if factor == 1 else one * float(factor)
        elif abs(factor) == 1:
            total = total + one if factor > 0 else total - one
        else:
            total = total + one * float(factor)
    assert total is not None
    return total


def combined(at: Expr, matrix: Matrix, term: Callable[[int], Expr]) -> Expr:
    """Return the combination of a matrix's row `at`, which is known once loops are unrolled."""
    total = _combination(matrix[-1], term)
    for k in range(len(matrix) - 2, -1, -1):
        total = select(at.lt(k + 1), _combination(matrix[k], term), total)
    return total


def winograd_convolution(site: Site, target: Target, choice: Choice) -> Tuned:
    """Return a 3 x 3 convolution over transformed weights.

    With p a tile of t x t outputs, B, G and A Winograd's matrices::

        image[n, i, j, p, c] = (B' d B)[i, j], d the pixels of channel c that p reads
        products[n, i, j, ob, p, l] = sum(image[n, i, j, p, c] * weight[i, j, ob, c, l] for c)
        out[n, y, x, o] = (A' m A)[y % t, x % t], m the products of o's lane and tile
    """
    data = site.value(1)
    assert data is not None
    batch, depth = site.output.shape[0], data.shape[3]
    by = ALGORITHMS[choice.algorithm]
    lanes, block = choice.vectors * target.lanes(32), choice.block
    size, read = by.tile, by.read
    rows, columns = by.tiles(site)
    groups, blocks, tiles = -(-data.shape[0] // lanes), depth // block, rows * columns
    weight = site.made_later(
        (read, read, groups, blocks, block, lanes),
        "float32",
        site.tensors[1].name,
        lambda: transformed_weights(data, by, block, lanes),
    )
    packed = _packed(site, (rows * size + 2, columns * size + 2), block)

    def half(n: Expr, i: Expr, b: Expr, p: Expr, cb: Expr, c: Expr) -> Expr:
        y, left = (p // columns) * size, (p % columns) * size
        return combined(i + 0, by.of_image, lambda a: packed[n, cb, y + a, left + b, c])

    def image(n: Expr, i: Expr, j: Expr, p: Expr, cb: Expr, c: Expr) -> Expr:
        return combined(j + 0, by.of_image, lambda b: half_done[n, i, b, p, cb, c])

    half_done = site.compute((batch, read, read, tiles, blocks, block), half, "half")
    moved = site.compute((batch, read, read, tiles, blocks, block), image, "image")
    cb, ci = reduce_axis(blocks, "cb"), reduce_axis(block, "ci")
    sums = site.compute(
        (batch, read, read, groups, tiles, lanes),
        lambda n, i, j, ob, p, lane: sum_over(
            moved[n, i, j, p, cb, ci] * weight[i, j, ob, cb, ci, lane], (cb, ci)
        ),
        "products",
    )
    back = site.compute(
        (batch, size, read, groups, tiles, lanes),
        lambda n, r, j, ob, p, lane: combined(
            r + 0, by.of_sums, lambda i: sums[n, i, j, ob, p, lane]
        ),
        "back",
    )
    total = site.compute(
        (batch, groups, tiles, size, size, lanes),
        lambda n, ob, p, r, q, lane: combined(
            q + 0, by.of_sums, lambda j: back[n, r, j, ob, p, lane]
        ),
        "tile",
    )
    finish = finished(site, (1, 2, 3), 0)

    def element(n: Expr, h: Expr, w: Expr, channel: Expr) -> Expr:
        o = as_expr(channel)
        p = (h // size) * columns + w // size
        return finish(total[n, o // lanes, p, h % size, w % size, o % lanes], o)

    output = site.compute(site.output.shape, element)
    vector = target.lanes(32)

    def schedule(s: Schedule, final: Tensor) -> None:
        out = s[final]
        n, h, w, o = out.axis
        group, lane = out.split(o, factor=lanes)
        ho, hi = out.split(h, factor=size)
        wo, wi = out.split(w, factor=size)
        around: IterVar | None = None
        if choice.at_once == 0:
            out.reorder(n, group, ho, wo, hi, wi, lane)
            parallel(out, [n, group, ho])
        else:
            hb, ho = out.split(ho, factor=choice.at_once)
            out.reorder(n, hb, group, ho, wo, hi, wi, lane)
            around = out.fuse(n, hb)
            out.parallel(around)
        out.vectorize(lane)
        tile = s[total]
        tile.set_scope("register")
        tile.compute_at(out, wo)
        some, lane = tile.split(tile.axis[-1], factor=vector)
        tile.reorder(*tile.axis[:3], some, *tile.axis[3:5], lane)
        unroll_all(tile, tile.axis[:5])
        tile.vectorize(lane)
        _in_registers(s[back], tile, some, (0, 3, 4, 2, 1, 5))
        spread = _image_stage(s[moved], s[half_done], vector)
        products = _product_stage(s, sums, choice)
        if around is None:
            parallel(s[moved], spread)
            parallel(s[products], list(s[products].leaves[:4]))
        else:
            s[moved].compute_at(out, around)
            s[products].compute_at(out, around)
        schedule_packed(s[packed])

    return Tuned(output, (packed, half_done, moved, sums, back, total), schedule)


def _packed(site: Site, whole: tuple[int, int], block: int) -> Tensor:
    """Return the image in blocks of channels with zeros around, to the rows and columns given."""
    layer = Layer.of(site)
    (top, bottom), (left, right) = (
        (before, size - before - extent)
        for (before, _), size, extent in zip(layer.padding, whole, layer.shape[1:3], strict=True)
    )
    return replace(layer, padding=((top, bottom), (left, right))).packed(site, block)


def _in_registers(stage: Stage, host: Stage, at: IterVar, order: Sequence[int]) -> None:
    stage.set_scope("register")
    stage.compute_at(host, at)
    stage.reorder(*(stage.axis[k] for k in order))
    unroll_all(stage, stage.axis[:-1])
    stage.vectorize(stage.axis[-1])


def _image_stage(moved: Stage, half: Stage, vector: int) -> list[IterVar]:
    """Transform a tile of some channels at a time; return the loops over those."""
    n, i, j, p, cb, c = moved.axis
    some, lane = moved.split(c, factor=vector)
    moved.reorder(n, cb, p, some, i, j, lane)
    unroll_all(moved, (i, j))
    moved.vectorize(lane)
    _in_registers(half, moved, some, (0, 3, 4, 2, 1, 5))
    return [n, cb]


def _product_stage(s: Schedule, sums: Tensor, choice: Choice) -> Tensor:
    """Multiply matrices, some tiles by some vectors of channels in registers."""
    held = s.cache_write(sums, "register")
    stage = s[sums]
    n, i, j, ob, p, lane = stage.axis
    po, pi = stage.split(p, factor=choice.columns)
    stage.reorder(n, i, j, ob, po, pi, lane)
    stage.unroll(pi)
    stage.vectorize(lane)
    inner = s[held]
    inner.compute_at(stage, po)
    cb, ci = inner.reduce_axis
    inner.reorder(cb, *unrolled_steps(inner, ci, choice.unrolled), *inner.axis)
    unroll_all(inner, inner.axis[:-1])
    inner.vectorize(inner.axis[-1])
    return sums
