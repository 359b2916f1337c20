"""Cooperative fetching: the threads of a block fill shared memory together."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.ir.linear import const_bounds, variables
from vdla.compiler.targets.gpu.intrinsics import WORD
from vdla.compiler.targets.gpu.vectors import VECTOR_TYPES
from vdla.compiler.te import Schedule, Stage, Tensor
from vdla.compiler.te.expr import Const, Read, Var
from vdla.compiler.te.tensor import IterVar
from vdla.compiler.te.traverse import walk

from .dots import dot_of

__all__ = ["ENOUGH_BLOCKS", "LANES", "fetch", "in_pieces", "step_of", "sum_in_registers"]

LANES = 4
"""Elements of a vector: what a thread reads and writes of memory at a time, 128 bits of floats."""


ENOUGH_BLOCKS = 128
"""Of a grid: as many as a large GPU has multiprocessors. With fewer, tiles should be smaller."""


def step_of(depth: int, most: int) -> int:
    """Return how many terms of a reduction to fetch at a time, `most` of them at the most.

    Several steps are all as long, so that little is added up past the end, and of whole vectors
    unless that adds more than a fourth: 33 terms are 3 steps of 12 rather than of 16, and 17 are 2
    of 9.
    """
    steps = -(-depth // most)
    even = -(-depth // steps)
    vectors = -(-even // LANES) * LANES
    worth = steps > 1 and vectors <= most and 4 * steps * vectors <= 5 * depth
    return vectors if worth else even


def in_pieces(
    out: Stage, axis: IterVar, threads: int, own: int, pieces: int
) -> tuple[tuple[IterVar, ...], IterVar, IterVar]:
    """Share out a block's elements among threads, each with some in pieces that lie apart.

    Before: ``for i in 64``. After, for 8 threads with 8 elements each in 2 pieces::

        for v in 2 (vthread): for t in 8: for e in 4: ...            # i = 32 * v + 4 * t + e

    Parameters
    ----------
    out : Stage
    axis : IterVar
        Of a block's elements.
    threads, own : int
        Of the block along the axis, and elements of each.
    pieces : int
        Divides `own`.

    Returns
    -------
    tuple of tuple of IterVar, IterVar and IterVar
        Virtual threads, where there is more than one piece; threads; elements of a piece.
    """
    piece = own // pieces
    if pieces == 1:
        return (), *out.split(axis, factor=piece)
    virtual, thread = out.split(axis, factor=threads * piece)
    out.bind(virtual, "vthread")
    return (virtual,), *out.split(thread, factor=piece)


def fetch(
    schedule: Schedule,
    tensor: Tensor,
    reader: Tensor,
    at: IterVar,
    threads: Sequence[int],
    *,
    vectors: bool = False,
) -> Stage:
    """Read a tensor through shared memory, a tile at a time.

    Before::

        for k: c += a[...]                               # each thread reads all that it needs

    After, for blocks of 8 x 4 threads::

        for k:
          for o: a.shared[...] = a[...]                  # 32 elements in a step, one a thread
          c += a.shared[...]                             # what all threads have read

    Chen et al., TVM (2018), section 4.2, call this cooperative fetching. Threads that follow each
    other read elements that follow each other in the tensor's last dimension.

    Parameters
    ----------
    schedule : Schedule
    tensor : Tensor
        What is read.
    reader : Tensor
        The tensor whose stage reads it.
    at : IterVar
        Loop of the reader inside which the tile is filled.
    threads : sequence of int
        Of a block, along x, y and z.
    vectors : bool
        Whether each thread reads four elements of a row at a time. The tile's rows are whole
        vectors.

    Returns
    -------
    Stage
        That fills the tile.
    """
    copy = schedule[schedule.cache_read(tensor, "shared", [reader])]
    copy.compute_at(schedule[reader], at)
    copy.whole_tiles()
    element, *rest = copy.axis
    for axis in rest:
        element = copy.fuse(element, axis)
    if vectors:
        element, lane = copy.split(element, factor=LANES)
        copy.vectorize(lane)
    width, height, depth = threads
    _, thread = copy.split(element, factor=width * height * depth)
    if depth > 1:
        layer, thread = copy.split(thread, factor=width * height)
        copy.bind(layer, "threadIdx.z")
    if height > 1:
        row, thread = copy.split(thread, factor=width)
        copy.bind(row, "threadIdx.y")
    copy.bind(thread, "threadIdx.x")
    return copy


def sum_in_registers(
    schedule: Schedule,
    sums: Tensor,
    out: Stage,
    thread: IterVar,
    columns: int,
    depth: int,
    threads: Sequence[int],
) -> None:
    """Sum up what a thread computes in its registers, over tiles that its block fetches.

    Parameters
    ----------
    schedule : Schedule
    sums : Tensor
        A reduction of tensors; the last axis it runs over is cut into steps. Where it is of words
        of four 8-bit integers, as `dot_of` tells, that is the one before the last.
    out : Stage
        That reads the sums.
    thread : IterVar
        Loop of `out` inside which a thread's own elements are.
    columns : int
        Of the block's tile: elements of the sums' last dimension.
    depth : int
        Length of a step; the last one is as long, and adds 0 past the end.
    threads : sequence of int
        Of a block, along x, y and z.
    """
    total = schedule[sums]
    total.set_scope("register")
    total.compute_at(out, thread)
    total.whole_tiles(terms=True)
    dot = dot_of(total)
    *window, last = total.reduce_axis if dot is None else total.reduce_axis[:-1]
    step, own = total.split(last, factor=depth)
    total.reorder(step, *window, own, *total.axis)
    for axis in (*total.axis[-2:], own):
        total.unroll(axis)
    spans = [(total.axis[-1].var, columns), (last.var, depth)]
    if dot is not None:
        spans.append((total.reduce_axis[-1].var, WORD))
    reads = {part.tensor: part for part in walk(total.body) if isinstance(part, Read)}
    for tensor, read in reads.items():
        known = (tensor.dtype, LANES) in VECTOR_TYPES
        vectors = known and _in_whole_vectors(read, spans)
        fetch(schedule, tensor, sums, step, threads, vectors=vectors)
    if dot is not None:
        total.tensorize(total.reduce_axis[-1], dot)


def _in_whole_vectors(read: Read, spans: Sequence[tuple[Var, int]]) -> bool:
    """Tell whether a tile of what is read has rows of whole vectors, as the tensor has itself."""
    shape = read.tensor.shape
    rows = max(k for k, extent in enumerate(shape) if extent > 1 or k == 0)
    loops = [(var, Const(extent)) for var, extent in spans]
    if not variables(read.indices[rows]) <= {var for var, _ in loops}:
        return False
    low, high = const_bounds(read.indices[rows], loops)
    return shape[rows] % LANES == (high + 1 - low) % LANES == 0
