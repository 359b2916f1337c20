"""Convolution of 8-bit integers by an instruction that adds up products of pairs of 16 bits."""

from __future__ import annotations

import numpy as np

from vdla.compiler.targets.cpu.intrinsics import pair_product
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import Expr, Schedule, Tensor, reduce_axis, select, sum_over

from .choice import Choice
from .define.site import Array, Site
from .direct import Layer, pack_weights, schedule_packed, takes_direct
from .tuned import Tuned, unroll_all, unrolled_steps

__all__ = ["pair_convolution", "takes_pairs"]


def takes_pairs(site: Site, target: Target) -> bool:
    """Tell whether a node convolves 8-bit integers, and the target has the instruction.

    One output channel alone fills no vector.
    """
    return (
        takes_direct(site)
        and site.output.shape[-1] > 1
        and site.quantized
        and site.input(0).dtype in ("int8", "uint8")
        and pair_product(target, target.lanes(32)) is not None
    )


def pair_convolution(site: Site, target: Target, choice: Choice) -> Tuned:
    """Return a convolution of quantized integers; its sums are exact in 32 bits.

    Image and weights are widened to 16 bits, so that neither needs a shift of its range, and lie
    in pairs of channels, the last one with a zero where they are odd::

        packed[n, cb, y, x, cp, k] = x[n, y - top, x - left, block * cb + 2 * cp + k]
        sums[n, ob, y, x, l] = sum(packed[n, cb, sy * y + dy * i, sx * x + dx * j, cp, k]
                                   * weight[ob, cb, i, j, cp, l, k] for cb, i, j, cp, k)
    """
    layer = Layer.of(site, flat=choice.flat)
    lanes = choice.vectors * target.lanes(32)
    intrin = pair_product(target, lanes)
    assert intrin is not None
    _, rows, columns, depth = layer.data.shape
    even = depth + depth % 2
    block = choice.block
    weight = site.constant(_weights(layer.data, block, lanes), site.tensors[1].name)
    sizes = {"cb": even // block, "i": rows, "j": columns, "cp": block // 2, "k": 2}
    axes = cb, i, j, cp, k = tuple(reduce_axis(size, name) for name, size in sizes.items())

    def widened(n: Expr, cb: Expr, h: Expr, w: Expr, cp: Expr, k: Expr) -> Expr:
        channel = cb * block + cp * 2 + k
        value = layer.surrounded(site, n, h, w, channel).astype("int16")
        return value if even == depth else select(channel.lt(depth), value, 0)

    packed = site.compute(
        (layer.shape[0], even // block, *layer.surrounded_size, block // 2, 2), widened, "packed"
    )

    def total(n: Expr, ob: Expr, h: Expr, w: Expr, lane: Expr) -> Expr:
        y, x = layer.position(h, w, i, j)
        pair = packed[n, cb, y, x, cp, k]
        factor = weight[ob, cb, i, j, cp, lane, k]
        return sum_over(pair.astype("int32") * factor.astype("int32"), axes)

    shape = (layer.output[0], weight.shape[0], *layer.tiled_size, lanes)
    sums = site.compute(shape, total, "sums")

    def schedule(s: Schedule, final: Tensor) -> None:
        out = s[final]
        # Rescaling takes hundreds of instructions: a tile's pixels are left in memory for a loop.
        at = layer.schedule_outputs(out, lanes, choice, unrolled=False)
        held = s[s.cache_write(sums, "register")]
        left = s[sums]
        left.compute_at(out, at)
        unroll_all(left, left.axis[:-1])
        left.vectorize(left.axis[-1])
        held.compute_at(left, left.axis[1])
        *steps, pairs, both = held.reduce_axis
        steps += unrolled_steps(held, pairs, choice.unrolled)
        *pixels, lane = held.axis
        held.reorder(*steps, *pixels, lane, both)
        unroll_all(held, pixels)
        held.vectorize(lane)
        held.tensorize(lane, intrin)
        schedule_packed(s[packed])

    return Tuned(layer.finished(site, sums, lanes), (sums, packed), schedule)


def _weights(data: Array, block: int, lanes: int) -> Array:
    """Return weights as (O / lanes, I / block, H, W, block / 2, lanes, 2) in 16 bits."""
    odd = data.shape[3] % 2
    even = np.pad(data.astype(np.int16), ((0, 0), (0, 0), (0, 0), (0, odd)))
    packed = pack_weights(even, block, lanes)
    split = packed.reshape(*packed.shape[:4], block // 2, 2, lanes)
    return np.ascontiguousarray(split.transpose(0, 1, 2, 3, 4, 6, 5))
