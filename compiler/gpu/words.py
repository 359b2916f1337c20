"""Products of 8-bit integers, four terms to a word: operands laid out as dot products take them."""

from __future__ import annotations

import numpy as np

from vdla.compiler.cpu.define.products import entry
from vdla.compiler.cpu.define.site import Site
from vdla.compiler.cpu.define.windows import finished, outputs_of, padded_images
from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.gpu.intrinsics import WORD
from vdla.compiler.te import Expr, Tensor, minimum, reduce_axis, select, sum_over
from vdla.compiler.te.expr import ExprLike, as_expr

from .weights import Weights, weights_of

__all__ = ["define_in_words", "has_bytes", "takes_words"]


def has_bytes(graph: Graph, node: Node) -> bool:
    """Tell whether both factors of an operator that has a template are integers of 8 bits."""
    return {str(tensor.dtype) for tensor in graph.input_tensors(node)[:2]} <= {"int8", "uint8"}


def takes_words(graph: Graph, node: Node) -> bool:
    """Tell whether an operator that has a template multiplies integers of 8 bits.

    Weights must be constant, but for products of matrices: they are laid out beforehand. Not in
    convolutions by groups, whose words would hold channels of two of them.
    """
    if not has_bytes(graph, node):
        return False
    x, weight, *_ = graph.input_tensors(node)
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


def _in_words(site: Site, order: tuple[int, ...]) -> Weights:
    """Lay weights out as (..., words, O, 4); ``order`` puts O last but one, the terms last."""
    held = weights_of(site, order).padded(WORD)
    *lead, outputs, terms = held.data.shape
    split = held.data.reshape(*lead, outputs, terms // WORD, WORD)
    return Weights(np.ascontiguousarray(np.moveaxis(split, -2, -3)), held.channels)


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
