"""Products of matrices by warps: a block's tiles in shared memory, a warp's in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from vdla.compiler.targets.gpu.matrices import (
    LANES,
    LEFT,
    RIGHT,
    SIDE,
    SUMS,
    aligned_bytes,
    load_left,
    load_right,
    multiply,
    store_sums,
)
from vdla.compiler.te import IterVar, Schedule, Stage, Tensor, TensorIntrin, create_schedule
from vdla.compiler.te.expr import Const

from .rows import Product

__all__ = ["MatrixTile", "default_matrix_tile", "schedule_matrices"]


@dataclass(frozen=True, kw_only=True)
class MatrixTile:
    """How a product is shared out.

    Attributes
    ----------
    warps : tuple of int
        Of a block, along rows and along columns.
    tiles : tuple of int
        Of 16 x 16 sums that each warp holds, along rows and along columns.
    """

    warps: tuple[int, int]
    tiles: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        down, across = (w * t * SIDE for w, t in zip(self.warps, self.tiles, strict=True))
        return down, across

    @property
    def threads(self) -> tuple[int, int, int]:
        """Of a block, along x, y and z: a warp's lanes, warps along columns and along rows."""
        return LANES, self.warps[1], self.warps[0]


def default_matrix_tile(rows: int, columns: int) -> MatrixTile:
    """Return tiles that are no larger than they need be, 64 x 64 at the most.

    A warp that holds 2 x 2 tiles loads 4 for 4 products.
    """
    counts = [-(-size // SIDE) for size in (rows, columns)]
    down, across = ((min(2, -(-count // 2)), min(2, count)) for count in counts)
    return MatrixTile(warps=(down[0], across[0]), tiles=(down[1], across[1]))


def schedule_matrices(product: Product, tile: MatrixTile) -> Schedule:
    """Share out ``sums[..., m, n] = sum(left[..., m, k] * right[..., k, n])``.

    Before: ``for m: for n: for k: ...``. After, for blocks of M x N::

        for m.o (blockIdx.x): for n.o (blockIdx.y):
          for m.w (threadIdx.z): for n.w (threadIdx.y):        # warps
            for k.o:
              left.shared (M x K), right.shared (K x N)        # by all threads
              for k.i in K / 16:                               # from here on by a warp at once
                left, right                                    # tiles of 16 x 16
                for m.t: for n.t: sums[m.t, n.t] += left[m.t] * right[n.t]
            sums.shared = sums
          for m.i: for n.i (threadIdx): output[...] = sums.shared[m.i, n.i]

    What becomes of the sums needs to know which element it has, and a thread of a warp does not:
    so they go through shared memory.

    Parameters
    ----------
    product : Product
    tile : MatrixTile
    """
    schedule = create_schedule(product.output)
    kept = (product.output, product.sums, *product.held, product.left, product.right)
    for stage in schedule.stages:
        if stage.tensor not in kept:
            stage.compute_inline()
    out = schedule[product.output]
    last = _share_out_output(out, product, tile)
    shared = schedule[schedule.cache_read(product.sums, "shared", _readers(schedule, product.sums))]
    shared.compute_at(out, last)
    warp = _share_out_sums(shared, tile)
    sums = schedule[product.sums]
    sums.set_scope(SUMS)
    sums.compute_at(shared, warp)
    sums.whole_tiles()
    *_, m, n = sums.axis
    step, k = sums.split(sums.reduce_axis[0], factor=product.depth)
    deep, k = sums.split(k, factor=SIDE)
    m_tile, m = sums.split(m, factor=SIDE)
    n_tile, n = sums.split(n, factor=SIDE)
    sums.reorder(step, deep, m_tile, n_tile, m, n, k)
    for axis in (deep, m_tile, n_tile):
        sums.unroll(axis)
    dtype = product.held[0].dtype
    sums.tensorize(m, multiply(dtype))
    lefts, rights = (schedule[factor] for factor in (product.left, product.right))
    for stage, width, lanes in (
        (lefts, product.depth, product.lanes[0]),
        (rights, product.depth if product.by_columns else tile.shape[1], product.lanes[1]),
    ):
        stage.set_scope("shared")
        stage.storage_align(stage.axis[-2], _apart(width, dtype))
        stage.compute_at(sums, step)
        stage.whole_tiles()
        turned = product.turned and stage is rights
        _share_out_elements(stage, tile.threads, lanes, turned=turned)
    loads = (load_left(dtype, centred=product.left.dtype != dtype), load_right(dtype))
    for factor, scope, load in zip(product.held, (LEFT, RIGHT), loads, strict=True):
        held = schedule[factor]
        held.set_scope(scope)
        held.compute_at(sums, deep)
        _in_tiles(held, load)
    return schedule


def _apart(width: int, dtype: str) -> int:
    """Return how far apart rows begin in shared memory, in elements.

    That is an odd number of what they are aligned to: if it were even, of the eight rows that are
    read at once more would begin in the same banks.
    """
    size = np.dtype(dtype).itemsize
    pieces = -(-width * size // aligned_bytes(dtype))
    return (pieces + 1 - pieces % 2) * aligned_bytes(dtype) // size


def _readers(schedule: Schedule, tensor: Tensor) -> list[Tensor]:
    return [stage.tensor for stage in schedule.stages if tensor in stage.reads()]


def _share_out_output(out: Stage, product: Product, tile: MatrixTile) -> IterVar:
    """Bind the output's loops, and return the last one of blocks."""
    lead = len(product.sums.shape) - 2
    *axes, n = out.axis
    batch = axes[:lead]
    # One of a single element stays apart: a body that reads at 0 there reads at no fused index.
    m, *rest = [axis for axis in axes[lead:] if axis.extent != Const(1)] or axes[-1:]
    for axis in rest:
        m = out.fuse(m, axis)
    (rows, columns), (lanes, across, down) = tile.shape, tile.threads
    m_block, m = out.split(m, factor=rows)
    n_block, n = out.split(n, factor=columns)
    m_step, m = out.split(m, factor=down * across)
    m_down, m_across = out.split(m, factor=across)
    n_step, n_lane = out.split(n, factor=lanes)
    out.reorder(m_block, n_block, m_step, n_step, m_down, m_across, n_lane)
    if batch:
        one, *others = batch
        for axis in others:
            one = out.fuse(one, axis)
        out.bind(one, "blockIdx.z")
    for axis, place in (
        (m_block, "blockIdx.x"),
        (n_block, "blockIdx.y"),
        (m_down, "threadIdx.z"),
        (m_across, "threadIdx.y"),
        (n_lane, "threadIdx.x"),
    ):
        out.bind(axis, place)
    return n_block


def _share_out_sums(shared: Stage, tile: MatrixTile) -> IterVar:
    """Bind the loops that store a block's sums, and return the last one of warps."""
    shared.whole_multiples(*tile.shape)
    *_, m, n = shared.axis
    shared.storage_align(m, _apart(tile.shape[1], shared.tensor.dtype))
    m_warp, m = shared.split(m, factor=tile.tiles[0] * SIDE)
    n_warp, n = shared.split(n, factor=tile.tiles[1] * SIDE)
    m_tile, m = shared.split(m, factor=SIDE)
    n_tile, n = shared.split(n, factor=SIDE)
    shared.reorder(m_warp, n_warp, m_tile, n_tile, m, n)
    shared.bind(m_warp, "threadIdx.z")
    shared.bind(n_warp, "threadIdx.y")
    shared.unroll(m_tile)
    shared.unroll(n_tile)
    shared.tensorize(m, store_sums(shared.tensor.dtype))
    return n_warp


def _in_tiles(held: Stage, intrinsic: TensorIntrin) -> None:
    """Make a stage of what a warp holds of tiles."""
    held.whole_tiles()
    *_, m, n = held.axis
    m_tile, m = held.split(m, factor=SIDE)
    n_tile, n = held.split(n, factor=SIDE)
    held.reorder(m_tile, n_tile, m, n)
    held.unroll(m_tile)
    held.unroll(n_tile)
    held.tensorize(m, intrinsic)


def _share_out_elements(
    stage: Stage, threads: Sequence[int], lanes: int, *, turned: bool = False
) -> None:
    """Bind a stage's vectors, one after the other, to the threads of a block.

    Parameters
    ----------
    stage : Stage
    threads : sequence of int
        Along x, y and z.
    lanes : int
        Elements of a vector.
    turned : bool
        Whether threads that follow each other take elements of a column rather than of a row.
    """
    *lead, row = stage.axis[:-1]
    vector, lane = stage.split(stage.axis[-1], factor=lanes)
    stage.vectorize(lane)
    element, *rest = (*lead, vector, row) if turned else (*lead, row, vector)
    stage.reorder(element, *rest, lane)
    for axis in rest:
        element = stage.fuse(element, axis)
    width, height, depth = threads
    _, thread = stage.split(element, factor=prod(threads))
    layer, thread = stage.split(thread, factor=width * height)
    row, thread = stage.split(thread, factor=width)
    for axis, size, place in (
        (layer, depth, "threadIdx.z"),
        (row, height, "threadIdx.y"),
        (thread, width, "threadIdx.x"),
    ):
        if size > 1:
            stage.bind(axis, place)
