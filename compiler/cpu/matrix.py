"""Convolution of 8-bit integers by products of matrices in tile registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from vdla.compiler.targets.cpu.matrices import (
    MATRIX,
    QUAD,
    ROW_BYTES,
    SIDE,
    load_left,
    load_right,
    multiply,
    store_sums,
)
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import (
    Expr,
    IterVar,
    Schedule,
    Stage,
    Tensor,
    TensorIntrin,
    all_of,
    reduce_axis,
    select,
    sum_over,
)

from .choice import MATRICES, Choice
from .define.site import Array, Site
from .direct import Layer, takes_quantized
from .tuned import Tuned, parallel, unroll_all

__all__ = [
    "MATRIX_TILES",
    "MOST_BLOCK_BYTES",
    "Grid",
    "matrix_convolution",
    "takes_matrices",
]

_LEAST_DEPTH = 16
"""Channels: with fewer most of a tile would be zeros."""
_PRODUCT_CYCLES, _LATENCY_CYCLES, _LOAD_CYCLES = 16, 52, 8
"""From a product of tiles to the next one, to the next one on the same sums, and from a load of a
tile to the next one, on Sapphire Rapids. Source: Intel 64 and IA-32 Architectures Optimization
Reference Manual, chapter on AMX."""
MATRIX_TILES = ((2, 2), (1, 3), (3, 1), (1, 2), (2, 1), (1, 1))
"""Tiles of positions and of channels whose sums and factors fit eight registers."""
MOST_BLOCK_BYTES = 1 << 20
"""Of sums that are stored before they are finished: half a second-level cache of Sapphire
Rapids, and little of a thread's stack."""


def takes_matrices(site: Site, target: Target) -> bool:
    """Tell whether a node multiplies 8-bit integers, and the target has tile registers.

    The sums of a row of outputs must fit a block.
    """
    if not (
        target.has("amx_int8")
        and takes_quantized(site)
        and site.tensors[1].shape[-1] >= _LEAST_DEPTH
    ):
        return False
    layer = Layer.of(site)
    fits = Grid(layer, 1, 1, 1).block_bytes <= MOST_BLOCK_BYTES
    return fits and layer.data.dtype == np.int8


@dataclass(frozen=True)
class Grid:
    """The outputs of an image as rows of a matrix, so that a tile of them reads one of the image.

    Every stride-th row and column of the image, with its margin, is an image of its own, a
    *phase*; there neighbouring outputs read neighbouring pixels. A phase is one line of positions,
    one of its rows after the other, as long as all that any tap of the window reads of them. What
    a tap reads for position p then lies at p and a constant, on the next row too, so tiles need
    not end where rows do; sums at a row's end that belong to no output are left.

    Attributes
    ----------
    layer : Layer
    rows : int
        Output rows that are computed before the next ones; a dense layer's images are its rows.
    tiles, vectors : int
        Tiles of positions, and of channels, that are multiplied at a time.
    """

    layer: Layer
    rows: int
    tiles: int
    vectors: int

    @classmethod
    def of(cls, layer: Layer, choice: Choice) -> Grid:
        """Return the grid that a choice makes of a layer."""
        height = layer.output[2] if layer.dense else layer.output[1]
        return cls(layer, choice.at_once or height, choice.columns, choice.vectors)

    @property
    def choice(self) -> Choice:
        """The choice that makes this grid of its layer."""
        _, each = self.steps
        return Choice(
            algorithm=MATRICES,
            columns=self.tiles,
            vectors=self.vectors,
            block=each,
            unrolled=1,
            at_once=self.rows if self.rows < self.outputs[0] else 0,
        )

    @property
    def outputs(self) -> tuple[int, int]:
        """Rows and columns of outputs."""
        _, height, width = self.layer.output
        return (width, 1) if self.layer.dense else (height, width)

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns of the window."""
        _, rows, columns, _ = self.layer.data.shape
        return rows, columns

    @cached_property
    def phases(self) -> tuple[int, int]:
        """Phases down and across: one where no tap reads another."""
        of = zip(self.window, self.layer.strides, self.layer.dilation, strict=True)
        down, across = (
            stride if any(k * step % stride for k in range(taps)) else 1
            for taps, stride, step in of
        )
        return down, across

    @cached_property
    def reach(self) -> tuple[int, int]:
        """How far the last tap reads from the first one in a phase, down and across."""
        of = zip(self.window, self.layer.strides, self.layer.dilation, strict=True)
        down, across = ((taps - 1) * step // stride for taps, stride, step in of)
        return down, across

    @property
    def across(self) -> int:
        """Positions from one row of outputs to the next."""
        return self.outputs[1] + self.reach[1]

    @property
    def blocks(self) -> int:
        """Blocks of rows that are computed one after the other."""
        return -(-self.outputs[0] // self.rows)

    @property
    def block_tiles(self) -> int:
        """Tiles of positions in a block of rows, a multiple of those multiplied at a time."""
        positions = (self.rows - 1) * self.across + self.outputs[1]
        return -(-positions // (SIDE * self.tiles)) * self.tiles

    @property
    def positions(self) -> int:
        """Positions of a phase, whole tiles of them, as far as any tile reads."""
        before = (self.blocks - 1) * self.rows * self.across
        last = before + self.block_tiles * SIDE + self.reach[0] * self.across + self.reach[1]
        return -(-last // SIDE) * SIDE

    @property
    def steps(self) -> tuple[int, int]:
        """Products of tiles for all channels, and the channels of each, in whole quads."""
        depth = int(self.layer.data.shape[3])
        count = -(-depth // ROW_BYTES)
        return count, -(-depth // (count * QUAD)) * QUAD

    @property
    def groups(self) -> int:
        """Groups of output channels."""
        return -(-int(self.layer.data.shape[0]) // (SIDE * self.vectors))

    @property
    def block_bytes(self) -> int:
        """What the sums of a block of rows and a group of channels take."""
        return 4 * SIDE * SIDE * self.vectors * self.block_tiles

    @property
    def cycles(self) -> int:
        """How long the products of all images take where tiles come from a near cache."""
        taps, (count, _) = prod(self.window), self.steps
        times = self.layer.output[0] * self.blocks * self.groups * self.block_tiles // self.tiles
        products = _PRODUCT_CYCLES * self.tiles * self.vectors
        loads = _LOAD_CYCLES * (self.tiles + self.vectors)
        return times * taps * count * max(products, loads, _LATENCY_CYCLES)

    def read(self, i: IterVar, j: IterVar) -> tuple[Expr, Expr, Expr]:
        """Return the phases that a tap reads, and how far behind an output's position."""
        (sy, sx), (dy, dx) = self.layer.strides, self.layer.dilation
        down, across = i * dy, j * dx
        one, other = (
            step % stride if count > 1 else step * 0
            for step, stride, count in zip((down, across), (sy, sx), self.phases, strict=True)
        )
        return one, other, down // sy * self.across + across // sx

    def pixel(self, site: Site, n: Expr, y: Expr, x: Expr, channel: Expr) -> Expr:
        """Return an element of the input with its margin, 0 behind its end."""
        layer, (count, each) = self.layer, self.steps
        depth = layer.data.shape[3]
        if layer.dense:
            value, height, width = layer.pixel(site, n, x, y, channel), layer.shape[2], 1
        else:
            value = layer.surrounded(site, n, y, x, channel)
            height, width = layer.surrounded_size
        (sy, sx), (down, across) = layer.strides, self.phases
        inside = []
        if (self.positions - 1) // self.across * sy + down > height:
            inside.append(y.lt(height))
        if (self.across - 1) * sx + across > width:
            inside.append(x.lt(width))
        if count * each > depth:
            inside.append(channel.lt(depth))
        return select(all_of(*inside), value, 0) if inside else value


def matrix_convolution(site: Site, target: Target, choice: Choice) -> Tuned:
    """Return a convolution of quantized integers as products of tiles of 16 x 64 and 64 x 16.

    Positions are those of a `Grid`; 64 stands for as many channels as `Grid.steps` says::

        packed[n, cb, py, px, y * across + x, q, k] =
            x[n, sy * y + py - top, sx * x + px - left, 64 * cb + 4 * q + k]
        sums[n, hb, ob, t, pt, m, l] =
            sum(packed[n, cb, dy * i % sy, dx * j % sx, hb * rows * across + 16 * pt + m
                       + dy * i // sy * across + dx * j // sx, q, k]
                * weight[ob, cb, i, j, t, q, l, k] for cb, i, j, q, k)

    For each block of rows and group of channels, all threads sharing them::

        for pt.o:
          sums (t x pt.i tiles) = 0
          for cb: for i: for j:
            packed.matrix (pt.i tiles), weight.matrix (t tiles)   # loaded
            for t: for pt.i: sums[t, pt.i] += packed.matrix[pt.i] * weight.matrix[t]
          sums.global = sums                                      # stored
        for h: for w: output[...] = sums.global[...]              # finished
    """
    layer = Layer.of(site)
    grid, kind, vectors = Grid.of(layer, choice), site.input(0).dtype, choice.vectors
    count, each = grid.steps
    quads, (rows, columns) = each // QUAD, grid.window
    weight = site.constant(_weights(layer.data, count, each, vectors), site.tensors[1].name)
    sizes = {"cb": count, "i": rows, "j": columns, "q": quads, "k": QUAD}
    axes = cb, i, j, q, k = tuple(reduce_axis(size, name) for name, size in sizes.items())
    (sy, sx), batch = layer.strides, layer.output[0]

    def pixel(n: Expr, cb: Expr, py: Expr, px: Expr, position: Expr, q: Expr, k: Expr) -> Expr:
        y, x = position // grid.across * sy + py, position % grid.across * sx + px
        return grid.pixel(site, n, y, x, cb * each + q * QUAD + k)

    shape = (batch, count, *grid.phases, grid.positions, quads, QUAD)
    packed = site.compute(shape, pixel, "packed")

    def total(n: Expr, hb: Expr, ob: Expr, t: Expr, pt: Expr, m: Expr, lane: Expr) -> Expr:
        *phase, behind = grid.read(i, j)
        position = hb * (grid.rows * grid.across) + pt * SIDE + m + behind
        value = packed[(n, cb, *phase, position, q, k)]
        factor = weight[ob, cb, i, j, t, q, lane, k]
        return sum_over(value.astype("int32") * factor.astype("int32"), axes)

    shape = (batch, grid.blocks, weight.shape[0], vectors, grid.block_tiles, SIDE, SIDE)
    sums = site.compute(shape, total, "sums")

    def sum_of(n: Expr, h: Expr, w: Expr, channel: Expr) -> Expr:
        h, w = (w, h) if layer.dense else (h, w)
        position, tile = h % grid.rows * grid.across + w, channel // SIDE
        return sums[
            n,
            h // grid.rows,
            tile // vectors,
            tile % vectors,
            position // SIDE,
            position % SIDE,
            channel % SIDE,
        ]

    def schedule(s: Schedule, final: Tensor) -> None:
        readers = [stage.tensor for stage in s.stages if sums in stage.reads()]
        stored = s[s.cache_read(sums, "global", readers)]
        stored.compute_at(s[final], _share_out(s[final], grid, vectors))
        _multiply(s[sums], stored, grid, multiply(kind, quads))
        left = s[s.cache_read(packed, MATRIX, [sums])]
        right = s[s.cache_read(weight, MATRIX, [sums])]
        for stage in (left, right):
            stage.compute_at(s[sums], j)
            stage.whole_tiles()
        tile, m = left.split(left.axis[-3], factor=SIDE)
        left.unroll(tile)
        left.tensorize(m, load_left(kind, quads))
        right.unroll(right.axis[-4])
        right.tensorize(right.axis[-3], load_right(quads))
        _schedule_packed(s[packed], grid.across)

    return Tuned(layer.finished_of(site, sum_of), (sums, packed), schedule)


def _share_out(out: Stage, grid: Grid, vectors: int) -> IterVar:
    """Run over blocks of rows and groups of channels on all threads; return that loop."""
    *front, channel = out.axis
    dense = grid.layer.dense
    images, (height, *columns) = front[: 0 if dense else 1], front[0 if dense else 1 :]
    block, row = out.split(height, factor=grid.rows)
    tile, lane = out.split(channel, factor=SIDE)
    group, tile = out.split(tile, factor=vectors)
    outer = [*images, block, group]
    out.reorder(*outer, row, *columns, tile, lane)
    out.vectorize(lane)
    return parallel(out, outer)


def _multiply(sums: Stage, stored: Stage, grid: Grid, product: TensorIntrin) -> None:
    """Store some tiles of sums at a time, which stay in registers until they are complete."""
    stored.whole_multiples(grid.tiles, SIDE, SIDE)
    *_, vector, tile, m, _ = stored.axis
    tiles, tile = stored.split(tile, factor=grid.tiles)
    stored.reorder(tiles, vector, tile)
    unroll_all(stored, [vector, tile])
    stored.tensorize(m, store_sums())
    sums.set_scope(MATRIX)
    sums.compute_at(stored, tiles)
    sums.whole_tiles()
    *_, vector, tile, m, lane = sums.axis
    *steps, quad, each = sums.reduce_axis
    sums.reorder(*steps, vector, tile, m, lane, quad, each)
    unroll_all(sums, [vector, tile])
    sums.tensorize(m, product)


def _schedule_packed(copy: Stage, across: int) -> None:
    """Copy rows on all threads, every channel of a pixel before the next one."""
    n, blocks, down, right, position, *inner = copy.axis
    y, x = copy.split(position, factor=across)
    channel = copy.fuse(*inner)
    copy.reorder(n, y, down, x, right, blocks, channel)
    copy.vectorize(channel)
    parallel(copy, [n, y])


def _weights(data: Array, count: int, each: int, vectors: int) -> Array:
    """Return weights OHWI as (O / (16 * vectors), count, H, W, vectors, each / 4, 16, 4)."""
    outputs, rows, columns, depth = data.shape
    groups = -(-outputs // (vectors * SIDE))
    full = np.zeros((groups * vectors * SIDE, rows, columns, count * each), data.dtype)
    full[:outputs, ..., :depth] = data
    split = full.reshape(groups, vectors, SIDE, rows, columns, count, each // QUAD, QUAD)
    return np.ascontiguousarray(split.transpose(0, 5, 3, 4, 1, 6, 2, 7))
