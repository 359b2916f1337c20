"""Direct convolution: a tile of pixels and channels stays in registers for its whole reduction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.quantization import conv_params
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import (
    Expr,
    IterVar,
    Schedule,
    Stage,
    Tensor,
    all_of,
    reduce_axis,
    select,
    sum_over,
)
from vdla.compiler.te.expr import Real, as_expr

from .choice import Choice
from .define.site import Array, Site
from .define.windows import accumulator, centred, finished
from .tuned import Tuned, parallel, unroll_all, unrolled_steps

__all__ = [
    "Layer",
    "direct_convolution",
    "pack_weights",
    "schedule_packed",
    "takes_direct",
    "takes_quantized",
]


def takes_direct(site: Site) -> bool:
    """Tell whether a node is a convolution, or a dense layer, of constant weights and one group."""
    if site.node.op not in ("conv2d", "dense") or site.value(1) is None:
        return False
    if site.node.op == "dense":
        return len(site.tensors[0].shape) == 2 and len(site.output.shape) == 2
    return site.tensors[1].shape[3] == site.tensors[0].shape[3]


def takes_quantized(site: Site) -> bool:
    """Tell whether a node is one of those that multiplies 8-bit integers, for several channels."""
    return (
        takes_direct(site)
        and site.output.shape[-1] > 1
        and site.quantized
        and site.input(0).dtype in ("int8", "uint8")
    )


def pack_weights(data: Array, block: int, lanes: int) -> Array:
    """Return weights OHWI as (O / lanes, I / block, H, W, block, lanes), with zeros at the end."""
    outputs, rows, columns, depth = data.shape
    groups = -(-outputs // lanes)
    full = np.zeros((groups * lanes, rows, columns, depth), data.dtype)
    full[:outputs] = data
    split = full.reshape(groups, lanes, rows, columns, depth // block, block)
    return np.ascontiguousarray(split.transpose(0, 4, 2, 3, 5, 1))


@dataclass(frozen=True)
class Layer:
    """A convolution, or a dense layer as one over rows of pixels, one an image.

    Attributes
    ----------
    dense : bool
    data : array
        Weights OHWI, less their zero points.
    shape : tuple of int
        Of the input, NHWC.
    output : tuple of int
        Batch, height and width.
    strides, dilation : tuple of int
    padding : tuple of (int, int)
        Rows before and after, columns before and after.
    flat : bool
        Whether tiles are cut from all pixels in a row, and not from the image's rows.
    """

    dense: bool
    data: Array
    shape: tuple[int, ...]
    output: tuple[int, int, int]
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    flat: bool = False

    @classmethod
    def of(cls, site: Site, *, flat: bool = False) -> Layer:
        """Return what a node computes."""
        x, data = site.input(0), site.value(1)
        assert data is not None
        data = centred(site, data, 0) if site.quantized else data
        if site.node.op == "dense":
            data = data.reshape(data.shape[0], 1, 1, data.shape[1])
            return cls(True, data, (1, 1, *x.shape), (1, 1, x.shape[0]), flat=flat)
        attrs = {name: site.attrs[name] for name in ("strides", "dilation", "padding")}
        batch, height, width, _ = site.output.shape
        return cls(False, data, x.shape, (batch, height, width), **attrs, flat=flat)

    @property
    def tiled_size(self) -> tuple[int, int]:
        """Rows and columns that tiles are cut from."""
        _, height, width = self.output
        return (1, height * width) if self.flat else (height, width)

    def position(self, h: Expr, w: Expr, i: IterVar, j: IterVar) -> tuple[Expr, Expr]:
        """Return the row and the column, with the margin, that one of the tiles' pixels reads."""
        (sy, sx), (dy, dx) = self.strides, self.dilation
        if self.flat:
            h, w = w // self.output[2], w % self.output[2]
        return h * sy + i * dy, w * sx + j * dx

    @property
    def in_place(self) -> bool:
        """Whether each output reads its pixel once, where it lies: a window of one, no margin."""
        return self.data.shape[1:3] == (1, 1) and not any(map(any, self.padding))

    def pixel(self, site: Site, n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        """Return an element of the input."""
        x = site.input(0)
        return x[w, c] if self.dense else x[n, h, w, c]

    def surrounded(self, site: Site, n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        """Return an element of the input with its margin, at an index that counts the margin."""
        (top, bottom), (left, right) = self.padding
        _, height, width, _ = self.shape
        zero = conv_params(site.graph, site.node).input_zero_point if site.quantized else 0
        dtype = site.input(0).dtype
        fill = Real(0.0, dtype) if dtype.startswith("float") else zero
        value = self.pixel(site, n, h - top, w - left, c)
        sides = ((h, top, bottom, height), (w, left, right, width))
        inside = [at.ge(before) for at, before, _, _ in sides if before]
        inside += [at.lt(before + size) for at, before, after, size in sides if after]
        return select(all_of(*inside), value, fill) if inside else value

    def packed(self, site: Site, block: int) -> Tensor:
        """Return the input with its margin, channels in blocks: (N, C / block, H, W, block)."""
        return site.compute(
            (self.shape[0], self.shape[3] // block, *self.surrounded_size, block),
            lambda n, cb, h, w, ci: self.surrounded(site, n, h, w, cb * block + ci),
            "packed",
        )

    @property
    def surrounded_size(self) -> tuple[int, int]:
        """Height and width of the input with its margin."""
        (top, bottom), (left, right) = self.padding
        return top + self.shape[1] + bottom, left + self.shape[2] + right

    def finished(self, site: Site, sums: Tensor, lanes: int, shift: int = 0) -> Tensor:
        """Return the node's output from sums of shape (N, O / lanes, *tiled_size, lanes).

        The input and its margin were higher by `shift` than they are in the graph.
        """

        def sum_of(n: Expr, h: Expr, w: Expr, channel: Expr) -> Expr:
            if self.flat:
                h, w = as_expr(0), h * self.output[2] + w
            return sums[n, channel // lanes, h, w, channel % lanes]

        return self.finished_of(site, sum_of, shift)

    def finished_of(
        self, site: Site, sum_of: Callable[[Expr, Expr, Expr, Expr], Expr], shift: int = 0
    ) -> Tensor:
        """Return the node's output from a function of an output's place: n, h, w, channel.

        The input and its margin were higher by `shift` than they are in the graph.
        """
        finish = finished(site, (1,) if self.dense else (1, 2, 3), 0, shift)
        zero = as_expr(0)

        def element(*index: Expr) -> Expr:
            *place, channel = map(as_expr, index)
            n, h, w = (zero, zero, *place) if self.dense else place
            return finish(sum_of(n, h, w, channel), channel)

        return site.compute(site.output.shape, element)

    def schedule_outputs(
        self, out: Stage, lanes: int, choice: Choice, *, unrolled: bool = True
    ) -> IterVar:
        """Run over register tiles on all threads; return the loop at which one is summed.

        Parameters
        ----------
        out : Stage
        lanes : int
            Channels of a tile.
        choice : Choice
        unrolled : bool
            Whether a tile's pixels are finished straight from registers.
        """
        *front, w, channel = out.axis
        group, lane = out.split(channel, factor=lanes)
        if self.flat:
            w = out.fuse(front.pop(), w)
        wo, wi = out.split(w, factor=choice.columns)
        inner = [wi]
        if self.dense or self.flat:
            if choice.at_once:
                wb, wo = out.split(wo, factor=choice.at_once)
                front.append(wb)
            front.append(group)
        else:
            ho, hi = out.split(front[1], factor=choice.rows)
            front, inner = [front[0], group, ho], [hi, wi]
            if choice.at_once:
                hb, ho = out.split(ho, factor=choice.at_once)
                front = [front[0], hb, group, ho]
        out.reorder(*front, wo, *inner, lane)
        if unrolled:
            unroll_all(out, inner)
        out.vectorize(lane)
        parallel(out, front[:3])
        return wo

    def tile_rows(self, choice: Choice) -> int:
        """Return how many rows of tiles there are, or tiles where they are flat."""
        height, width = self.tiled_size
        flat = self.dense or self.flat
        return -(-width // choice.columns) if flat else -(-height // choice.rows)


def direct_convolution(site: Site, target: Target, choice: Choice) -> Tuned:
    """Return a convolution over packed weights.

    The image is copied with its margin, its channels in blocks that the reduction walks through::

        packed[n, cb, y, x, ci] = x[n, y - top, x - left, block * cb + ci]
        sums[n, ob, y, x, l] = sum(packed[n, cb, sy * y + dy * i, sx * x + dx * j, ci]
                                   * weight[ob, cb, i, j, ci, l] for cb, i, j, ci)

    Pixels that are read once, and have no margin, are read where they lie.
    """
    layer = Layer.of(site, flat=choice.flat)
    _, rows, columns, depth = layer.data.shape
    block = choice.block
    lanes = choice.vectors * target.lanes(32)
    weight = site.constant(pack_weights(layer.data, block, lanes), site.tensors[1].name)
    kind = accumulator(site.input(0).dtype)
    sizes = {"cb": depth // block, "i": rows, "j": columns, "ci": block}
    axes = cb, i, j, ci = tuple(reduce_axis(size, name) for name, size in sizes.items())
    copies = () if layer.in_place else (layer.packed(site, block),)

    def total(n: Expr, ob: Expr, h: Expr, w: Expr, lane: Expr) -> Expr:
        place = layer.position(h, w, i, j)
        if copies:
            element: Expr = copies[0][(n, cb, *place, ci)]
        else:
            element = layer.pixel(site, n, *place, cb * block + ci)
        return sum_over(element.astype(kind) * weight[ob, cb, i, j, ci, lane].astype(kind), axes)

    shape = (layer.output[0], weight.shape[0], *layer.tiled_size, lanes)
    sums = site.compute(shape, total, "sums")

    def schedule(s: Schedule, final: Tensor) -> None:
        out = s[final]
        _accumulate(s[sums], out, layer.schedule_outputs(out, lanes, choice), choice.unrolled)
        for copy in copies:
            schedule_packed(s[copy])

    return Tuned(layer.finished(site, sums, lanes), (sums, *copies), schedule)


def schedule_packed(copy: Stage) -> None:
    """Copy rows on all threads, each as it lies in the image; its blocks are written apart."""
    n, blocks, h, w, *inner = copy.axis
    channel = copy.fuse(*inner) if len(inner) > 1 else inner[0]
    copy.reorder(n, h, w, blocks, channel)
    copy.vectorize(channel)
    parallel(copy, [n, h])


def _accumulate(sums: Stage, out: Stage, at: IterVar, unrolled: int) -> None:
    """Keep the sums of a tile in registers, some steps of the reduction unrolled."""
    sums.set_scope("register")
    sums.compute_at(out, at)
    *steps, ci = sums.reduce_axis
    sums.reorder(*steps, *unrolled_steps(sums, ci, unrolled), *sums.axis)
    unroll_all(sums, sums.axis[:-1])
    sums.vectorize(sums.axis[-1])
