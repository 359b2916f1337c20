"""Direct convolutions, NHWC, depthwise too: a patch of the image and its weights are shared."""

from __future__ import annotations

from vdla.compiler.te import Schedule, Tensor

from .convolution_tiles import ConvolutionTile
from .fetch import in_pieces, sum_in_registers

__all__ = ["schedule_convolution"]


def schedule_convolution(
    schedule: Schedule, final: Tensor, sums: Tensor, tile: ConvolutionTile
) -> None:
    """Share out ``sums[n, h, w, c] = sum(images[n, ...] * weight[..., k, c])``, over i, j and k.

    Before: ``for n: for h: for w: for c: for i: for j: for k: ...``. After::

        for n (blockIdx.z): for h.o, w.o (blockIdx.y): for c.o (blockIdx.x):
          for h.t (threadIdx.z): for w.t (threadIdx.y): for c.t (threadIdx.x):
            for k.o:
              images.shared, weight.shared               # a patch, its margin too; by all threads
              for i: for j: for k.i: for w.r: for c.r: sums[w.r, c.r] += ...   # in registers
            for w.r: for c.r: final[...] = sums[w.r, c.r]

    Columns and channels of a thread may lie in pieces, as those of `schedule_product` do.

    Parameters
    ----------
    schedule : Schedule
    final : Tensor
        What is written, of the shape of the sums.
    sums : Tensor
        The reduction, over rows, columns and, unless it is depthwise, channels of a window, of two
        tensors. A depthwise one takes the columns for the channels.
    tile : ConvolutionTile
    """
    out = schedule[final]
    n, h, w, c = out.axis
    across, wide, high = tile.threads
    h_block, h_thread = out.split(h, factor=high)
    w_block, w_thread = out.split(w, factor=wide * tile.columns)
    c_block, c_thread = out.split(c, factor=across * tile.channels)
    w_pieces, w_thread, w_own = in_pieces(out, w_thread, wide, tile.columns, tile.virtual_columns)
    c_pieces, c_thread, c_own = in_pieces(
        out, c_thread, across, tile.channels, tile.virtual_channels
    )
    pieces = (*w_pieces, *c_pieces)
    out.reorder(
        *(n, h_block, w_block, c_block), *pieces, *(h_thread, w_thread, c_thread), w_own, c_own
    )
    for axis, thread in (
        (n, "blockIdx.z"),
        (out.fuse(h_block, w_block), "blockIdx.y"),
        (c_block, "blockIdx.x"),
        (h_thread, "threadIdx.z"),
        (w_thread, "threadIdx.y"),
        (c_thread, "threadIdx.x"),
    ):
        out.bind(axis, thread)
    out.unroll(w_own)
    out.vectorize(c_own)
    channels = across * tile.channels
    sum_in_registers(schedule, sums, out, c_thread, channels, tile.depth, tile.threads)
