"""Convolution on the GEMM core, as tensor expressions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from vdla.compiler.te import (
    Expr,
    IterVar,
    Tensor,
    all_of,
    compute,
    pick,
    placeholder,
    reduce_axis,
    requantize,
    select,
    sum_over,
)
from vdla.config import Config

if TYPE_CHECKING:
    from .chain import Chain
    from .mover import Mover

__all__ = ["Added", "Conv2d", "ConvTensors", "ConvTile", "Place", "conv2d"]

Place = tuple[int, int, int, int]
"""Block of weights: output block, input block counted from the group's first, kernel row, column.
"""


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
    grouped : bool
        ``out_per_in`` output blocks see ``in_per_out`` input blocks only, the next ones the next:
        as many groups of channels as fill whole blocks on both sides. Depthwise weights are
        diagonal blocks.
    in_per_out, out_per_in : int
        Of grouped convolutions.
    met : tuple of tuple of int
        Input blocks, counted from the group's first, that each of ``out_per_in`` output blocks
        meets; empty: all of them. What is left out holds zeros only.
    shared_weights : bool
        For grouped ones, one set of blocks serves all taps and groups: a sum over windows.
    weight_parts : int
        Blocks whose sum is one block of weights.
    listed : tuple of Place
        Products on top, in ascending order: where a sum of two blocks is needed at few places.
    params_by_place : bool
        Requantization parameters differ between places of the result and not between channels:
        averages of windows that reach into the padding by different amounts.
    clip : (int, int)
        Range of the result.
    added_passes, added_sets : int
        Of an addition onto the result within a tile: cycles a vector, of the ALU and to bring the
        other operand in, and sets of parameters; 0 where nothing is added.
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
    grouped: bool = False
    in_per_out: int = 1
    out_per_in: int = 1
    met: tuple[tuple[int, ...], ...] = ()
    shared_weights: bool = False
    weight_parts: int = 1
    listed: tuple[Place, ...] = ()
    params_by_place: bool = False
    zero_point: int = 0
    clip: tuple[int, int] = (-128, 127)
    added_passes: int = 0
    added_sets: int = 0

    @cached_property
    def shape(self) -> Conv2d:
        """What its time depends on: neither its zero point nor its clip."""
        return replace(self, zero_point=0, clip=(-128, 127))

    @cached_property
    def out_height(self) -> int:
        """Rows of the result."""
        return self._out(self.height, 0)

    @cached_property
    def out_width(self) -> int:
        """Columns of the result."""
        return self._out(self.width, 1)

    def _out(self, size: int, k: int) -> int:
        reach = self.dilation[k] * (self.kernel[k] - 1) + 1
        return (size + sum(self.padding[k]) - reach) // self.strides[k] + 1

    @cached_property
    def reduction_blocks(self) -> int:
        """Most input blocks that one output block sums over."""
        if self.met:
            return max(map(len, self.met))
        return self.in_per_out if self.grouped else self.in_blocks

    @cached_property
    def taps(self) -> int:
        """Products of one input block with one output block."""
        return self.weight_parts * self.kernel[0] * self.kernel[1]

    @cached_property
    def products(self) -> float:
        """Products of one entry of the result, on average."""
        if not self.met:
            return self.reduction_blocks * self.taps + len(self.listed) / self.out_blocks
        blocks = sum(len(self.met[k % self.out_per_in]) for k in range(self.out_blocks))
        return (blocks * self.taps + len(self.listed)) / self.out_blocks

    @cached_property
    def row_step(self) -> int:
        """Rows from one window to the next once loaded: a 1x1 window skips the rest already."""
        skips = self.kernel[0] == 1 and not any(self.padding[0])
        return 1 if skips else self.strides[0]

    @cached_property
    def vectors(self) -> int:
        """Entries of the result."""
        return self.batch_blocks * self.out_blocks * self.out_height * self.out_width

    @cached_property
    def uops(self) -> int:
        """Micro-ops of the GEMM core: its ideal cycles."""
        return round(self.vectors * self.products)


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
class Added:
    """What follows requantization within a tile: another operand brought in and added.

    Attributes
    ----------
    data, params : Tensor
        Places for the operand and for the parameters of the addition.
    mover : Mover
        Brings the operand to ACC.
    chain : Chain
        The passes of the ALU.
    """

    data: Tensor
    params: Tensor
    mover: Mover
    chain: Chain


@dataclass(frozen=True)
class ConvTensors:
    """The stages of a convolution: ``data -> pad -> acc (-> listed) -> scaled -> result``.

    The reduce axes of ``acc``: input blocks, parts of weights, kernel rows, columns, lanes.
    """

    data: Tensor
    weights: Tensor
    params: Tensor
    pad: Tensor
    acc: Tensor
    scaled: Tensor
    result: Tensor
    listed: Tensor | None = None
    listed_weights: Tensor | None = None
    added: Added | None = None

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """Every tensor in memory: what is read, and the result."""
        more = [self.listed_weights] if self.listed_weights is not None else []
        if self.added is not None:
            more += [self.added.data, self.added.params, *self.added.mover.constants]
        return (self.data, self.weights, self.params, *more, self.result)


def conv2d(conv: Conv2d, config: Config) -> ConvTensors:
    """Return a convolution as tensor expressions.

    Layouts: data ``(N, C, H, W, batch, block_in)`` int8; weights ``(K, C, parts, kh, kw,
    block_out, block_in)`` int8, C being `Conv2d.reduction_blocks`; listed weights ``(listed,
    block_out, block_in)``; parameters ``(K, 3, batch, block_out)`` int32: bias, multiplier, packed
    shift, or by place ``(OH, OW, 3, batch, block_out)``; result ``(N, K, OH, OW, batch,
    block_out)`` int8. N, C and K count blocks.
    """
    b, bi, bo = config.batch, config.block_in, config.block_out
    n, k, kernel = conv.batch_blocks, conv.out_blocks, conv.kernel
    data = placeholder((n, conv.in_blocks, conv.height, conv.width, b, bi), "int8", "data")
    places = (conv.out_height, conv.out_width) if conv.params_by_place else (k,)
    params = placeholder((*places, 3, b, bo), "int32", "params")
    shared = (conv.out_per_in, conv.in_per_out, 1, 1, 1, bo, bi)
    packed = (k, conv.reduction_blocks, conv.weight_parts, *kernel, bo, bi)
    weights = placeholder(shared if conv.shared_weights else packed, "int8", "weights")
    pad = _padded(conv, data, config)

    ri, rp = reduce_axis(bi, "i"), reduce_axis(conv.weight_parts, "part")
    ry, rx = reduce_axis(kernel[0], "ky"), reduce_axis(kernel[1], "kx")

    def product(ni: IterVar, ko: IterVar, y: IterVar, x: IterVar, bb: IterVar, oo: IterVar) -> Expr:
        rc, channel = _met(conv, ko)
        row, column = y * conv.row_step + ry * conv.dilation[0], x * conv.strides[1]
        inp = pad[ni, channel, row, column + rx * conv.dilation[1], bb, ri]
        if conv.shared_weights:
            wgt = weights[ko % conv.out_per_in, rc, 0, 0, 0, oo, ri]
        else:
            wgt = weights[ko, rc, rp, ry, rx, oo, ri]
        return sum_over(inp.astype("int32") * wgt.astype("int32"), (rc, rp, ry, rx, ri))

    shape = (n, k, conv.out_height, conv.out_width, b, bo)
    acc = compute(shape, product, "conv")
    listed, listed_weights = _listed(conv, pad, acc, config) if conv.listed else (None, None)
    total = acc if listed is None else listed
    low, high = conv.clip

    def rescale(ni: IterVar, ko: IterVar, y: IterVar, x: IterVar, bb: IterVar, oo: IterVar) -> Expr:
        place = (y, x) if conv.params_by_place else (ko,)
        bias, multiplier, shift = (params[(*place, part, bb, oo)] for part in range(3))
        return requantize(total[ni, ko, y, x, bb, oo], bias, multiplier, shift, low, high)

    scaled = compute(shape, rescale, "rq")
    result = compute(shape, lambda *i: scaled[i].astype("int8"), "result")
    return ConvTensors(data, weights, params, pad, acc, scaled, result, listed, listed_weights)


def _met(conv: Conv2d, ko: IterVar) -> tuple[IterVar, Expr]:
    """Return the axis over the input blocks that an output block meets, and the block it is at."""
    if not conv.met:
        rc = reduce_axis(conv.reduction_blocks, "c")
        return rc, _first_block(conv, ko) + rc
    place = ko % conv.out_per_in
    starts = [0]
    for blocks in conv.met:
        starts.append(starts[-1] + len(blocks))
    rc = reduce_axis(pick([len(blocks) for blocks in conv.met], place), "c")
    within = pick([c for blocks in conv.met for c in blocks], pick(starts[:-1], place) + rc)
    return rc, _first_block(conv, ko) + within


def _first_block(conv: Conv2d, ko: IterVar) -> Expr:
    return ko // conv.out_per_in * conv.in_per_out if conv.grouped else ko * 0


def _listed(conv: Conv2d, pad: Tensor, acc: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    """Return the sums with the listed products added, and a place for the blocks of those."""
    bo, bi = config.block_out, config.block_in
    weights = placeholder((len(conv.listed), bo, bi), "int8", "listed_weights")
    counts = [sum(place[0] == k for place in conv.listed) for k in range(conv.out_blocks)]
    starts = [sum(counts[:k]) for k in range(conv.out_blocks)]
    _, blocks, rows, columns = zip(*conv.listed, strict=True)
    ri = reduce_axis(bi, "i")

    def added(ni: IterVar, ko: IterVar, y: IterVar, x: IterVar, bb: IterVar, oo: IterVar) -> Expr:
        entry = reduce_axis(pick(counts, ko), "entry")
        at = pick(starts, ko) + entry
        row = y * conv.row_step + pick([r * conv.dilation[0] for r in rows], at)
        column = x * conv.strides[1] + pick([c * conv.dilation[1] for c in columns], at)
        inp = pad[ni, _first_block(conv, ko) + pick(blocks, at), row, column, bb, ri]
        product = inp.astype("int32") * weights[at, oo, ri].astype("int32")
        return sum_over(product, (entry, ri), acc[ni, ko, y, x, bb, oo])

    return compute(acc.shape, added, "listed"), weights


def _padded(conv: Conv2d, data: Tensor, config: Config) -> Tensor:
    """Return the input as it lies in the scratchpad: padded, without skipped rows."""
    (top, bottom), (left, right) = conv.padding
    skip = conv.strides[0] if conv.row_step != conv.strides[0] else 1
    height = conv.out_height if skip > 1 else conv.height + top + bottom
    blocks = conv.in_blocks
    if conv.grouped:
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
