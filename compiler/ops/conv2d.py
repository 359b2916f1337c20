"""Convolution on the GEMM core: the expression and its schedule template."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.targets.vdla.intrinsics import Scope, gemm, rq
from vdla.compiler.te import (
    Schedule,
    Tensor,
    all_of,
    compute,
    create_schedule,
    placeholder,
    reduce_axis,
    requantize,
    select,
    sum_over,
)
from vdla.config import Config

__all__ = ["Conv2d", "ConvTile", "conv2d_schedule"]


@dataclass(frozen=True, kw_only=True)
class Conv2d:
    """A convolution in blocked layouts, with requantization.

    Sizes count blocks of channels: ``in_blocks`` of ``config.block_in``, ``out_blocks`` of
    ``config.block_out``; ``batch_blocks`` of ``config.batch`` images. A dense layer is the 1x1
    convolution of a 1x1 image.
    """

    batch_blocks: int
    in_blocks: int
    out_blocks: int
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    dilation: tuple[int, int] = (1, 1)
    depthwise: bool = False
    zero_point: int = 0
    clip: tuple[int, int] = (-128, 127)

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return self._out(self.height, 0)

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return self._out(self.width, 1)

    def _out(self, size: int, k: int) -> int:
        reach = self.dilation[k] * (self.kernel[k] - 1) + 1
        return (size + sum(self.padding[k]) - reach) // self.strides[k] + 1

    @property
    def uops(self) -> int:
        """Micro-ops of the GEMM core: its ideal cycles."""
        reduction = 1 if self.depthwise else self.in_blocks
        pixels = self.out_height * self.out_width
        return (
            self.batch_blocks
            * self.out_blocks
            * pixels
            * reduction
            * self.kernel[0]
            * self.kernel[1]
        )


@dataclass(frozen=True, kw_only=True)
class ConvTile:
    """Knobs of the template.

    Attributes
    ----------
    out_blocks, rows, columns : int
        Tile of the result that one virtual thread computes at a time.
    in_blocks : int
        Blocks of input channels loaded at a time.
    thread_axis : str
        ``none``, or what two virtual threads divide: ``out`` (output channels) or ``rows``.
    weights_outside : bool
        Load the weights of all input channels once an output tile's channels, outside the loops
        over rows and columns, instead of with every block of input channels.
    """

    out_blocks: int
    rows: int
    columns: int
    in_blocks: int
    thread_axis: str = "out"
    weights_outside: bool = False


@dataclass(frozen=True)
class ScheduledConv:
    """A schedule and its arguments, in the order data, weights, parameters, result."""

    schedule: Schedule
    data: Tensor
    weights: Tensor
    params: Tensor
    result: Tensor


def conv2d_schedule(conv: Conv2d, tile: ConvTile, config: Config) -> ScheduledConv:
    """Return a convolution scheduled for the accelerator.

    Layouts: data ``(N, C, H, W, batch, block_in)`` int8, weights ``(K, C, kh, kw, block_out,
    block_in)`` int8, parameters ``(K, 3, batch, block_out)`` int32 (bias, multiplier, packed
    shift), result ``(N, K, OH, OW, batch, block_out)`` int8, N, C and K counting blocks. Of
    depthwise weights C is 1: input block k makes output block k with diagonal blocks.
    """
    b, bi, bo = config.batch, config.block_in, config.block_out
    n, c, k = conv.batch_blocks, conv.in_blocks, conv.out_blocks
    (sy, sx), (dy, dx) = conv.strides, conv.dilation
    (top, bottom), (left, right) = conv.padding
    # A 1x1 window with a stride skips rows already when loading.
    skip = sy if conv.kernel[0] == 1 and not (top or bottom) else 1
    height = conv.out_height if skip > 1 else conv.height + top + bottom
    width = conv.width + left + right

    data = placeholder((n, c, conv.height, conv.width, b, bi), "int8", "data")
    weight_blocks = 1 if conv.depthwise else c
    weights = placeholder((k, weight_blocks, *conv.kernel, bo, bi), "int8", "weights")
    params = placeholder((k, 3, b, bo), "int32", "params")

    def padded(ni, ci, y, x, bb, ii):  # type: ignore[no-untyped-def]
        read = data[ni, ci, y * skip - top, x - left, bb, ii]
        guards = []
        if top or bottom:
            guards += [y.var.ge(top), y.var.lt(top + conv.height)]
        if left or right:
            guards += [x.var.ge(left), x.var.lt(left + conv.width)]
        return select(all_of(*guards), read, conv.zero_point) if guards else read

    pad = compute((n, c, height, width, b, bi), padded, "pad")
    ry, rx = reduce_axis(conv.kernel[0], "ky"), reduce_axis(conv.kernel[1], "kx")
    rc, ri = reduce_axis(weight_blocks, "c"), reduce_axis(bi, "i")
    step_y = 1 if skip > 1 else sy

    def product(ni, ko, y, x, bb, oo):  # type: ignore[no-untyped-def]
        channel = ko if conv.depthwise else rc
        inp = pad[ni, channel, y * step_y + ry * dy, x * sx + rx * dx, bb, ri]
        wgt = weights[ko, rc, ry, rx, oo, ri]
        return sum_over(inp.astype("int32") * wgt.astype("int32"), (rc, ry, rx, ri))

    shape = (n, k, conv.out_height, conv.out_width, b, bo)
    acc = compute(shape, product, "conv")
    low, high = conv.clip

    def rescale(ni, ko, y, x, bb, oo):  # type: ignore[no-untyped-def]
        entry = [params[ko, part, bb, oo] for part in range(3)]
        return requantize(acc[ni, ko, y, x, bb, oo], *entry, low, high)

    scaled = compute(shape, rescale, "rq")
    result = compute(shape, lambda *i: scaled[i].astype("int8"), "result")

    s = create_schedule(result)
    wbuf = s.cache_read(weights, Scope.WGT, [acc])
    pbuf = s.cache_read(params, Scope.ACC, [scaled])
    s[pad].set_scope(Scope.INP)
    s[acc].set_scope(Scope.ACC)
    s[scaled].set_scope(Scope.ACC)

    out = s[result]
    on, ok, oy, ox, ob, oo = out.leaves
    ok_o, ok_i = out.split(ok, factor=tile.out_blocks)
    oy_o, oy_i = out.split(oy, factor=tile.rows)
    ox_o, ox_i = out.split(ox, factor=tile.columns)
    if tile.thread_axis == "out":
        ok_o, thread = out.split(ok_o, factor=2)
    elif tile.thread_axis == "rows":
        oy_o, thread = out.split(oy_o, factor=2)
    if tile.thread_axis == "none":
        out.reorder(on, ok_o, oy_o, ox_o, ok_i, oy_i, ox_i, ob, oo)
        at = ox_o
        weights_at = ok_o
    else:
        out.bind(thread, "vthread")
        weights_at = thread if tile.thread_axis == "out" else ok_o
        if tile.thread_axis == "out" and tile.weights_outside:
            out.reorder(on, ok_o, thread, oy_o, ox_o, ok_i, oy_i, ox_i, ob, oo)
            at = ox_o
        else:
            out.reorder(on, ok_o, oy_o, ox_o, thread, ok_i, oy_i, ox_i, ob, oo)
            at = thread
    out.pragma(ok_i, "dma_copy")

    conv_stage = s[acc]
    conv_stage.compute_at(out, at)
    an, ak, ay, ax, ab, ao, *_ = conv_stage.leaves
    rc_o, rc_i = conv_stage.split(rc, factor=1 if conv.depthwise else tile.in_blocks)
    conv_stage.reorder(rc_o, an, ak, ay, ax, rc_i, ry, rx, ab, ao, ri)
    conv_stage.tensorize(ab, gemm(config))
    s[pad].compute_at(conv_stage, rc_o)
    s[pad].pragma(s[pad].leaves[0], "dma_copy")
    if tile.weights_outside:
        s[wbuf].compute_at(out, weights_at)
    else:
        s[wbuf].compute_at(conv_stage, rc_o)
    s[wbuf].pragma(s[wbuf].leaves[0], "dma_copy")

    s[scaled].compute_at(out, at)
    s[scaled].tensorize(s[scaled].leaves[4], rq(config))
    s[pbuf].pragma(s[pbuf].leaves[0], "dma_copy")
    return ScheduledConv(s, data, weights, params, result)
