"""Direct convolutions, NHWC: a patch of the image and its weights in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from vdla.compiler.targets.gpu.limits import SHARED_BYTES
from vdla.compiler.te import Schedule, Tensor
from vdla.errors import LoweringError

from .fetch import step_of, sum_in_registers

__all__ = ["ConvolutionTile", "default_convolution_tile", "schedule_convolution"]

_ELEMENT_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class ConvolutionTile:
    """How a convolution is shared out.

    Attributes
    ----------
    threads : tuple of int
        Of a block, along channels, columns and rows of the output.
    channels, columns : int
        That each thread computes: as many sums in registers as their product.
    depth : int
        Input channels that a block fetches at a time.
    """

    threads: tuple[int, int, int]
    channels: int
    columns: int
    depth: int


def default_convolution_tile(
    output: tuple[int, ...], weight: tuple[int, ...], attrs: Any
) -> ConvolutionTile:
    """Return the largest tile, of 32 channels and 4 x 8 pixels at the most, that fits.

    Parameters
    ----------
    output : tuple of int
        NHWC.
    weight : tuple of int
        OHWI.
    attrs : mapping
        ``strides`` and ``dilation``.

    Raises
    ------
    LoweringError
        A window of one channel takes more shared memory than a block has.
    """
    _, height, width, outputs = output
    _, rows, columns, inputs = weight
    channels, across = min(4, outputs), min(2, width)
    threads = min(8, -(-outputs // channels))
    for high, wide, depth in product((4, 2, 1), (4, 2, 1), (8, 4, 2, 1)):
        tile = ConvolutionTile(
            threads=(threads, min(wide, -(-width // across)), min(high, height)),
            channels=channels,
            columns=across,
            depth=step_of(inputs, depth),
        )
        if _bytes(tile, (rows, columns), attrs) <= SHARED_BYTES:
            return tile
    raise LoweringError(
        f"A window and its weights must fit {SHARED_BYTES:,} bytes of shared memory for one input "
        f"channel, and those of {rows} x {columns} do not: leave the operator on the processor."
    )


def _bytes(tile: ConvolutionTile, window: tuple[int, int], attrs: Any) -> int:
    across, wide, high = tile.threads
    pixels = (high, wide * tile.columns)
    patch: int = prod(
        (count - 1) * stride + (taps - 1) * dilation + 1
        for count, taps, stride, dilation in zip(
            pixels, window, attrs["strides"], attrs["dilation"], strict=True
        )
    )
    weights = prod(window) * across * tile.channels
    return (patch + weights) * tile.depth * _ELEMENT_BYTES


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

    Parameters
    ----------
    schedule : Schedule
    final : Tensor
        What is written, of the shape of the sums.
    sums : Tensor
        The reduction, over rows, columns and channels of a window, of two tensors.
    tile : ConvolutionTile
    """
    out = schedule[final]
    n, h, w, c = out.axis
    across, wide, high = tile.threads
    h_block, h_thread = out.split(h, factor=high)
    w_block, w_thread = out.split(w, factor=wide * tile.columns)
    c_block, c_thread = out.split(c, factor=across * tile.channels)
    w_thread, w_own = out.split(w_thread, factor=tile.columns)
    c_thread, c_own = out.split(c_thread, factor=tile.channels)
    out.reorder(n, h_block, w_block, c_block, h_thread, w_thread, c_thread, w_own, c_own)
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
