"""Products of matrices: a block's tiles in shared memory, a thread's sums in registers."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.te import Schedule, Tensor

from .fetch import ENOUGH_BLOCKS, LANES, in_pieces, step_of, sum_in_registers

__all__ = ["ProductTile", "default_product_tile", "schedule_product"]


@dataclass(frozen=True, kw_only=True)
class ProductTile:
    """How a product is shared out.

    Attributes
    ----------
    threads : tuple of int
        Of a block, along columns and along rows.
    columns, rows : int
        That each thread computes: as many sums in registers as their product.
    depth : int
        Terms that a block fetches at a time.
    virtual_columns, virtual_rows : int
        Pieces that a thread's columns and rows lie in, as far apart as its block has columns and
        rows of one piece.
    """

    threads: tuple[int, int]
    columns: int
    rows: int
    depth: int
    virtual_columns: int = 1
    virtual_rows: int = 1


_LARGE = (((8, 16), 8, 8), ((16, 8), 4, 8))
"""Threads along columns and rows, columns and rows of each: tiles of 128 x 64, and of 64 x 64."""
_SERVED = 16
"""Threads whose vectors of 64 bits shared memory gives at a time, half a warp."""


def default_product_tile(rows: int, columns: int, depth: int, batch: int = 1) -> ProductTile:
    """Return the largest tile of 128 x 64, 64 x 64 and 32 x 32 of which there are enough.

    With 4 x 4 sums a thread reads 8 elements of shared memory for 16 products, with 8 x 8 it reads
    16 for 64. The threads of a quarter of a warp read the same rows of the left matrix, which costs
    one access, and vectors of the right one that follow each other, since 8 columns of a thread lie
    in two pieces of 4: none waits for another's bank. Of half floats, half a warp is served at a
    time, which are threads of two rows: these follow each other, as the 8 of a thread lie apart. A
    large tile computes at most a fourth more, past the ends of the matrices, than the least one.
    """

    def blocks(high: int, wide: int) -> int:
        return batch * -(-rows // high) * -(-columns // wide)

    for (wide, high), across, down in _LARGE:
        tile = ProductTile(
            threads=(wide, high),
            columns=across,
            rows=down,
            depth=step_of(depth, 16),
            virtual_columns=across // LANES,
            virtual_rows=down if wide < _SERVED else 1,
        )
        count = blocks(high * down, wide * across)
        padded = count * high * down * wide * across
        if count >= ENOUGH_BLOCKS and 4 * padded <= 5 * blocks(32, 32) * 32 * 32:
            return tile
    across, down = min(4, columns), min(4, rows)
    return ProductTile(
        threads=(min(8, -(-columns // across)), min(8, -(-rows // down))),
        columns=across,
        rows=down,
        depth=step_of(depth, 16),
    )


def schedule_product(schedule: Schedule, final: Tensor, sums: Tensor, tile: ProductTile) -> None:
    """Share out ``sums[..., m, n] = sum(a[..., m, k] * b[..., k, n])``, and what is made of it.

    Before: ``for m: for n: for k: ...``. After, for tiles of M x N and K terms a step::

        for m.o (blockIdx.y): for n.o (blockIdx.x):
          for m.t (threadIdx.y): for n.t (threadIdx.x):
            for k.o:
              a.shared (M x K), b.shared (K x N)                 # by all threads
              for k.i: for m.r: for n.r: sums[m.r, n.r] += ...   # in registers
            for m.r: for n.r: final[...] = sums[m.r, n.r]

    Where a thread's columns lie in pieces, a loop of virtual threads is in front of those of
    threads, and so for rows. Before, of 64 columns and 8 threads, thread t has the 8 from ``8 * t``
    on: what a quarter of a warp reads at once of b.shared, 4 of them, lies in half of the banks.
    After, of 2 pieces, it has 4 from ``4 * t`` and 4 from ``32 + 4 * t`` on, and those of 8 threads
    lie in all banks.

    Parameters
    ----------
    schedule : Schedule
    final : Tensor
        What is written, of the shape of the sums.
    sums : Tensor
        The reduction, over one axis, of two tensors.
    tile : ProductTile
    """
    out = schedule[final]
    *lead, m, n = out.axis
    width, height = tile.threads
    m_block, m_thread = out.split(m, factor=height * tile.rows)
    n_block, n_thread = out.split(n, factor=width * tile.columns)
    m_pieces, m_thread, m_own = in_pieces(out, m_thread, height, tile.rows, tile.virtual_rows)
    n_pieces, n_thread, n_own = in_pieces(out, n_thread, width, tile.columns, tile.virtual_columns)
    pieces = (*m_pieces, *n_pieces)
    out.reorder(*lead, m_block, n_block, *pieces, m_thread, n_thread, m_own, n_own)
    if lead:
        batch = lead[0]
        for axis in lead[1:]:
            batch = out.fuse(batch, axis)
        out.bind(batch, "blockIdx.z")
    for axis, thread in (
        (m_block, "blockIdx.y"),
        (n_block, "blockIdx.x"),
        (m_thread, "threadIdx.y"),
        (n_thread, "threadIdx.x"),
    ):
        out.bind(axis, thread)
    out.unroll(m_own)
    out.vectorize(n_own)
    columns = width * tile.columns
    sum_in_registers(schedule, sums, out, n_thread, columns, tile.depth, (width, height, 1))
