"""Convolution on the GEMM core: the expression and its schedule template."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.targets.vdla.intrinsics import Scope, gemm, rq
from vdla.compiler.te import (
    Expr,
    IterVar,
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

__all__ = ["Conv2d", "ConvTensors", "ConvTile", "conv2d", "schedule_conv2d"]


@dataclass(frozen=True, kw_only=True)
class Conv2d:
    """A convolution in blocked layouts, with requantization.

    Attributes
    ----------
    batch_blocks, in_blocks, out_blocks : int
        Sizes in blocks of ``config.batch`` images, ``config.block_in`` and ``config.block_out``
        channels.
    height, width : int
        Of the input. A dense layer is the 1x1 convolution of a 1x1 image.
    kernel, strides, dilation : (int, int)
        Rows and columns.
    padding : ((int, int), (int, int))
        Before and after, rows and columns; it holds ``zero_point``.
    depthwise : bool
        A channel of the result sees its own channel only; the weights are diagonal blocks.
    in_per_out, out_per_in : int
        For depthwise, input blocks that one output block meets and the reverse; one of them is 1.
    shared_weights : bool
        For depthwise, one diagonal block serves all taps and channels: a sum over windows.
    params_by_place : bool
        Requantization parameters differ between places of the result and not between channels:
        averages of windows that reach into the padding by different amounts.
    clip : (int, int)
        Range of the result.
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
    in_per_out: int = 1
    out_per_in: int = 1
    shared_weights: bool = False
    params_by_place: bool = False
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
    def reduction_blocks(self) -> int:
        """Input blocks that one output block sums over."""
        return self.in_per_out if self.depthwise else self.in_blocks

    @property
    def row_step(self) -> int:
        """Rows from one window to the next once loaded: a 1x1 window skips the rest already."""
        skips = self.kernel[0] == 1 and not any(self.padding[0])
        return 1 if skips else self.strides[0]

    @property
    def vectors(self) -> int:
        """Entries of the result."""
        return self.batch_blocks * self.out_blocks * self.out_height * self.out_width

    @property
    def uops(self) -> int:
        """Micro-ops of the GEMM core: its ideal cycles."""
        return self.vectors * self.reduction_blocks * self.kernel[0] * self.kernel[1]


@dataclass(frozen=True, kw_only=True)
class ConvTile:
    """Knobs of the template.

    Attributes
    ----------
    out_blocks, rows, columns : int
        Tile of the result that one virtual thread computes at a time.
    in_blocks : int
        Blocks of the reduction loaded at a time.
    thread_axis : str
        ``none``, or what two virtual threads divide: ``out`` (output channels) or ``rows``.
    weights_outside : bool
        Load the weights of the whole reduction once a tile's output channels, outside the loops
        over rows and columns, instead of with every part of the reduction.
    params_inside : bool
        Load requantization parameters with every tile instead of once.
    """

    out_blocks: int
    rows: int
    columns: int
    in_blocks: int
    thread_axis: str = "out"
    weights_outside: bool = False
    params_inside: bool = False


@dataclass(frozen=True)
class ConvTensors:
    """The stages of a convolution: ``data -> pad -> acc -> scaled -> result``.

    ``reduction`` holds the reduce axes: input blocks, kernel rows, kernel columns, lanes.
    """

    data: Tensor
    weights: Tensor
    params: Tensor
    pad: Tensor
    acc: Tensor
    scaled: Tensor
    result: Tensor
    reduction: tuple[IterVar, IterVar, IterVar, IterVar]


def conv2d(conv: Conv2d, config: Config) -> ConvTensors:
    """Return a convolution as tensor expressions.

    Layouts: data ``(N, C, H, W, batch, block_in)`` int8; weights ``(K, C, kh, kw, block_out,
    block_in)`` int8, of depthwise ones C is `Conv2d.reduction_blocks`; parameters ``(K, 3, batch,
    block_out)`` int32: bias, multiplier, packed shift, or by place ``(OH, OW, 3, batch,
    block_out)``; result ``(N, K, OH, OW, batch, block_out)`` int8. N, C and K count blocks.
    """
    b, bi, bo = config.batch, config.block_in, config.block_out
    n, k, taps = conv.batch_blocks, conv.out_blocks, conv.kernel
    data = placeholder((n, conv.in_blocks, conv.height, conv.width, b, bi), "int8", "data")
    places = (conv.out_height, conv.out_width) if conv.params_by_place else (k,)
    params = placeholder((*places, 3, b, bo), "int32", "params")
    shared = (conv.out_per_in, conv.in_per_out, 1, 1, bo, bi)
    packed = (k, conv.reduction_blocks, *taps, bo, bi)
    weights = placeholder(shared if conv.shared_weights else packed, "int8", "weights")
    pad = _padded(conv, data, config)

    rc, ri = reduce_axis(conv.reduction_blocks, "c"), reduce_axis(bi, "i")
    ry, rx = reduce_axis(taps[0], "ky"), reduce_axis(taps[1], "kx")

    def product(ni: IterVar, ko: IterVar, y: IterVar, x: IterVar, bb: IterVar, oo: IterVar) -> Expr:
        channel = ko // conv.out_per_in * conv.in_per_out + rc if conv.depthwise else rc
        row, column = y * conv.row_step + ry * conv.dilation[0], x * conv.strides[1]
        inp = pad[ni, channel, row, column + rx * conv.dilation[1], bb, ri]
        if conv.shared_weights:
            wgt = weights[ko % conv.out_per_in, rc, 0, 0, oo, ri]
        else:
            wgt = weights[ko, rc, ry, rx, oo, ri]
        return sum_over(inp.astype("int32") * wgt.astype("int32"), (rc, ry, rx, ri))

    shape = (n, k, conv.out_height, conv.out_width, b, bo)
    acc = compute(shape, product, "conv")
    low, high = conv.clip

    def rescale(ni: IterVar, ko: IterVar, y: IterVar, x: IterVar, bb: IterVar, oo: IterVar) -> Expr:
        place = (y, x) if conv.params_by_place else (ko,)
        bias, multiplier, shift = (params[(*place, part, bb, oo)] for part in range(3))
        return requantize(acc[ni, ko, y, x, bb, oo], bias, multiplier, shift, low, high)

    scaled = compute(shape, rescale, "rq")
    result = compute(shape, lambda *i: scaled[i].astype("int8"), "result")
    return ConvTensors(data, weights, params, pad, acc, scaled, result, (rc, ry, rx, ri))


def _padded(conv: Conv2d, data: Tensor, config: Config) -> Tensor:
    """Return the input as it lies in the scratchpad: padded, without skipped rows."""
    (top, bottom), (left, right) = conv.padding
    skip = conv.strides[0] if conv.row_step != conv.strides[0] else 1
    height = conv.out_height if skip > 1 else conv.height + top + bottom
    blocks = conv.in_blocks
    if conv.depthwise:
        # Channels are padded to whole blocks on either side; the larger block decides.
        blocks = max(blocks, -(-conv.out_blocks // conv.out_per_in) * conv.in_per_out)

    def read(ni: IterVar, ci: IterVar, y: IterVar, x: IterVar, bb: IterVar, ii: IterVar) -> Expr:
        value = data[ni, ci, y * skip - top, x - left, bb, ii]
        guards = []
        if blocks > conv.in_blocks:
            guards += [ci.var.lt(conv.in_blocks)]
        if top or bottom:
            guards += [y.var.ge(top), y.var.lt(top + conv.height)]
        if left or right:
            guards += [x.var.ge(left), x.var.lt(left + conv.width)]
        return select(all_of(*guards), value, conv.zero_point) if guards else value

    width = conv.width + left + right
    shape = (conv.batch_blocks, blocks, height, width, config.batch, config.block_in)
    return compute(shape, read, "pad")


def schedule_conv2d(t: ConvTensors, tile: ConvTile, config: Config) -> Schedule:
    """Return the template's schedule for one choice of knobs.

    Loops over tiles of the result stand outside, two of them as virtual threads; inside, a loop
    over parts of the reduction loads inputs and weights and runs the GEMM core; requantization
    and the store follow a tile's last part.
    """
    s = create_schedule(t.result)
    wbuf = s.cache_read(t.weights, Scope.WGT, [t.acc])
    # Weights first: they wait for no operator before, and come while the last one computes.
    s.stages.insert(s.stages.index(s[t.pad]), s.stages.pop(s.stages.index(s[wbuf])))
    pbuf = s.cache_read(t.params, Scope.ACC, [t.scaled])
    s[t.pad].set_scope(Scope.INP)
    s[t.acc].set_scope(Scope.ACC)
    s[t.scaled].set_scope(Scope.ACC)

    out = s[t.result]
    n, k, y, x, *_ = out.leaves
    k_o, k_i = out.split(k, factor=tile.out_blocks)
    y_o, y_i = out.split(y, factor=tile.rows)
    x_o, x_i = out.split(x, factor=tile.columns)
    at, weights_at = x_o, k_o
    if tile.thread_axis == "out":
        k_o, thread = out.split(k_o, factor=2)
        weights_at = thread
    elif tile.thread_axis == "rows":
        y_o, thread = out.split(y_o, factor=2)
        weights_at = k_o
    if tile.thread_axis == "none":
        out.reorder(n, k_o, y_o, x_o, k_i, y_i, x_i)
    else:
        out.bind(thread, "vthread")
        if tile.thread_axis == "out" and tile.weights_outside:
            out.reorder(n, k_o, thread, y_o, x_o, k_i, y_i, x_i)
        else:
            out.reorder(n, k_o, y_o, x_o, thread, k_i, y_i, x_i)
            at = thread
    # An instruction each: the first block is stored while the next is requantized.
    out.pragma(y_i, "dma_copy")

    conv = s[t.acc]
    conv.compute_at(out, at)
    rc, ry, rx, ri = t.reduction
    an, ak, ay, ax, ab, ao, *_ = conv.leaves
    rc_o, rc_i = conv.split(rc, factor=tile.in_blocks)
    conv.reorder(rc_o, an, ak, ay, ax, rc_i, ry, rx, ab, ao, ri)
    conv.tensorize(ab, gemm(config))
    s[t.pad].compute_at(conv, rc_o)
    if tile.weights_outside:
        s[wbuf].compute_at(out, weights_at)
    else:
        s[wbuf].compute_at(conv, rc_o)

    s[t.scaled].compute_at(out, at)
    scaled = s[t.scaled].leaves
    s[t.scaled].unroll(scaled[1])
    s[t.scaled].tensorize(scaled[4], rq(config))
    if tile.params_inside:
        s[pbuf].compute_at(out, at)
    for copied in (t.pad, wbuf, pbuf):
        s[copied].pragma(s[copied].leaves[0], "dma_copy")
    return s
