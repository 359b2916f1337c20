"""Products of 8-bit integers with constant weights, laid out as the products of warps take them."""

from __future__ import annotations

import numpy as np

from vdla.compiler.cpu.define.indexing import flattened
from vdla.compiler.cpu.define.site import Site
from vdla.compiler.cpu.define.windows import finished, outputs_of, padded_images
from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.gpu.matrices import CENTRE
from vdla.compiler.te import Expr, Tensor, reduce_axis, sum_over

from .rows import STEP_BYTES
from .weights import weights_of
from .words import takes_words

__all__ = ["define_in_rows", "takes_rows"]


def takes_rows(graph: Graph, node: Node) -> bool:
    """Tell whether an operator multiplies 8-bit integers by constant weights, not in groups."""
    return node.op in ("conv2d", "dense") and takes_words(graph, node)


def define_in_rows(site: Site) -> Tensor:
    """Return a convolution or a dense layer by weights that lie in rows of terms.

    Before: ``sums[m, n] = sum(x[m, k] * w[k, n] for k)``. After, x being uint8::

        sums[m, n] = sum((x[m, k] - 128) * w.rows[n, k] for k)

    The rows end with 0, so that they are whole steps of a block. The sum of 128 times a channel's
    weights goes with the zero point.
    """
    return (_conv2d if site.node.op == "conv2d" else _dense)(site)


def _less(site: Site) -> int:
    """Return what is taken off the input: weights less their zero point are int8, so it must be."""
    return CENTRE if site.quantized and site.input(0).dtype == "uint8" else 0


def _element(value: Expr, less: int) -> Expr:
    wide = value.astype("int32")
    return wide - less if less else wide


def _rows(site: Site, data: np.ndarray) -> Tensor:
    """Return weights (O, ...) as rows of terms."""
    rows = data.reshape(len(data), -1)
    whole = np.pad(rows, ((0, 0), (0, -rows.shape[1] % STEP_BYTES)))
    return site.constant(whole, site.tensors[1].name)


def _conv2d(site: Site) -> Tensor:
    held, images, less = weights_of(site, (0, 1, 2, 3)), padded_images(site), _less(site)
    weight, window = _rows(site, held.data), held.data.shape[1:]
    (sy, sx), (dy, dx) = site.attrs["strides"], site.attrs["dilation"]
    i, j, k = (reduce_axis(extent, name) for extent, name in zip(window, "ijk", strict=True))

    def total(n: Expr, h: Expr, w: Expr, o: Expr) -> Expr:
        pixel = images[n, h * sy + i * dy, w * sx + j * dx, held.channel(k + 0)]
        factor = weight[o, flattened((i, j, k), window)]
        return sum_over(_element(pixel, less) * factor.astype("int32"), (i, j, k))

    sums = site.compute(site.output.shape, total, "sums")
    return outputs_of(site, sums, finished(site, (1, 2, 3), 0, -less))


def _dense(site: Site) -> Tensor:
    x, held, less = site.input(0), weights_of(site, (0, 1)), _less(site)
    weight, k = _rows(site, held.data), reduce_axis(held.data.shape[1], "k")

    def total(r: Expr, o: Expr) -> Expr:
        element = _element(x[r, held.channel(k + 0)], less)
        return sum_over(element * weight[o, k].astype("int32"), k)

    sums = site.compute((x.shape[0], len(held.data)), total, "sums")
    return outputs_of(site, sums, finished(site, (1,), 0, -less))
