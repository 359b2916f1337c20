"""Products of 8-bit integers, four terms to a word: operands laid out as dot products take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler.cpu.define.indexing import chosen
from vdla.compiler.cpu.define.products import entry
from vdla.compiler.cpu.define.site import Array, Site
from vdla.compiler.cpu.define.windows import centred, finished, outputs_of, padded_images
from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.gpu.intrinsics import WORD
from vdla.compiler.te import Expr, Tensor, minimum, reduce_axis, select, sum_over
from vdla.compiler.te.expr import ExprLike, as_expr

__all__ = ["define_in_words", "takes_words"]

_LOW, _HIGH = -128, 127


def takes_words(graph: Graph, node: Node) -> bool:
    """Tell whether an operator that has a template multiplies integers of 8 bits.

    Weights must be constant, but for products of matrices: they are laid out beforehand. Not in
    convolutions by groups, whose words would hold channels of two of them.
    """
    x, weight, *_ = graph.input_tensors(node)
    if not {str(x.dtype), str(weight.dtype)} <= {"int8", "uint8"}:
        return False
    if node.op == "conv2d":
        return weight.is_constant and weight.shape[3] == x.shape[3]
    return node.op == "matmul" or (node.op == "dense" and weight.is_constant)


def define_in_words(site: Site) -> Tensor:
    """Return a convolution, a dense layer or a product of matrices, summed up word by word.

    Before: ``sums[m, n] = sum(x[m, k] * w[k, n] for k)``. After::

        x.words[m, ko, ki] = x[m, 4 * ko + ki]
        w.words[ko, n, ki] = w[4 * ko + ki, n]          # 0 past the last k
        sums[m, n] = sum(x.words[m, ko, ki] * w.words[ko, n, ki] for ko, ki)

    Both are read from shared memory, of which words of four terms lie in one piece then.
    """
    return {"conv2d": _conv2d, "dense": _dense, "matmul": _matmul}[site.node.op](site)


@dataclass(frozen=True)
class _Weights:
    """Constant weights in words.

    Attributes
    ----------
    data : int8 or uint8 array
        (..., words, O, 4).
    channels : tuple of int
        The channel of the input that each of a word's terms is multiplied with. Those past the
        last one have weights of 0.
    """

    data: Array
    channels: tuple[int, ...]

    def channel(self, term: Expr) -> Expr:
        """Return the channel of a term."""
        last = self.channels[-1]
        if self.channels == tuple(min(k, last) for k in range(len(self.channels))):
            return term if len(self.channels) == last + 1 else minimum(term, last)
        return chosen(self.channels, term)


def _in_words(site: Site, order: tuple[int, ...]) -> _Weights:
    """Lay weights out; ``order`` puts their channels of the output before those of the input.

    Weights less their zero point take 9 bits: those that 8 do not hold are sums of some that do,
    and the channels in which there are any follow the others again.
    """
    data = site.value(1)
    assert data is not None
    wide = (centred(site, data, 0) if site.quantized else data).transpose(order)
    parts, channels = [wide], np.arange(wide.shape[-1])
    while parts[-1].dtype == np.int16:
        low = parts[-1].clip(_LOW, _HIGH)
        rest = parts[-1] - low
        again = np.flatnonzero(rest.any(axis=tuple(range(rest.ndim - 1))))
        own = channels[len(channels) - rest.shape[-1] :]
        parts[-1] = low.astype(np.int8)
        if again.size:
            parts.append(rest[..., again])
            channels = np.append(channels, own[again])
    joined = np.concatenate(parts, axis=-1)
    words = -(-joined.shape[-1] // WORD)
    more = words * WORD - joined.shape[-1]
    padded = np.pad(joined, [(0, 0)] * (joined.ndim - 1) + [(0, more)])
    split = padded.reshape(*padded.shape[:-1], words, WORD)
    used = np.append(channels, [channels[-1]] * more)
    return _Weights(np.ascontiguousarray(np.moveaxis(split, -2, -3)), tuple(used.tolist()))


def _conv2d(site: Site) -> Tensor:
    _, rows, columns, _ = site.tensors[1].shape
    held = _in_words(site, (1, 2, 0, 3))
    weight = site.constant(held.data, site.tensors[1].name)
    images = padded_images(site)
    count = weight.shape[2]
    (sy, sx), (dy, dx) = site.attrs["strides"], site.attrs["dilation"]

    def packed(n: Expr, h: Expr, w: Expr, word: Expr, k: Expr) -> Expr:
        return images[n, h, w, held.channel(word * WORD + k)]

    x = site.compute((*images.shape[:3], count, WORD), packed, "words")
    i, j, word, k = (
        reduce_axis(extent, name)
        for extent, name in zip((rows, columns, count, WORD), ("i", "j", "word", "k"), strict=True)
    )

    def total(n: Expr, h: Expr, w: Expr, o: Expr) -> Expr:
        element = x[n, h * sy + i * dy, w * sx + j * dx, word, k]
        return sum_over(
            element.astype("int32") * weight[i, j, word, o, k].astype("int32"), (i, j, word, k)
        )

    sums = site.compute(site.output.shape, total, "sums")
    return outputs_of(site, sums, finished(site, (1, 2, 3), 0))


def _dense(site: Site) -> Tensor:
    x, outputs = site.input(0), site.tensors[1].shape[0]
    rows = x.shape[0]
    held = _in_words(site, (0, 1))
    weight = site.constant(held.data, site.tensors[1].name)
    count = weight.shape[0]
    words = site.compute(
        (rows, count, WORD), lambda r, word, k: x[r, held.channel(word * WORD + k)], "words"
    )
    word, k = reduce_axis(count, "word"), reduce_axis(WORD, "k")

    def total(r: Expr, o: Expr) -> Expr:
        element, factor = words[r, word, k], weight[word, o, k]
        return sum_over(element.astype("int32") * factor.astype("int32"), (word, k))

    sums = site.compute((rows, outputs), total, "sums")
    return outputs_of(site, sums, finished(site, (1,), 0))


def _matmul(site: Site) -> Tensor:
    lhs, rhs, shape = site.input(0), site.input(1), site.output.shape
    depth = lhs.shape[-1]
    count = -(-depth // WORD)
    last = depth - 1

    def rows(*index: ExprLike) -> Expr:
        *lead, word, k = index
        at = as_expr(word) * WORD + k
        return select(at.lt(depth), lhs[(*lead, minimum(at, last))], 0)

    def columns(*index: ExprLike) -> Expr:
        *lead, word, n, k = index
        return rhs[(*lead, minimum(as_expr(word) * WORD + k, last), n)]

    a = site.compute((*lhs.shape[:-1], count, WORD), rows, "rows")
    b = site.compute((*rhs.shape[:-2], count, rhs.shape[-1], WORD), columns, "columns")
    word, k = reduce_axis(count, "word"), reduce_axis(WORD, "k")

    def total(*index: ExprLike) -> Expr:
        *lead, m, n = index
        left, right = entry(a, [*lead, m, word, k], 3), entry(b, [*lead, word, n, k], 3)
        return sum_over(left.astype("int32") * right.astype("int32"), (word, k))

    sums = site.compute(shape, total, "sums")
    return site.compute(shape, lambda *i: sums[i].wrap(site.dtype))
