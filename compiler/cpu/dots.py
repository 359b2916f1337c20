"""Convolution of 8-bit integers by an instruction that adds up products of neighbours.

The neighbours are channels: pairs of 16 bits, or quads of 8.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.targets.cpu.intrinsics import dot_product
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import Expr, Schedule, Tensor, reduce_axis, select, sum_over

from .choice import GROUPS, PAIRS, QUADS, Choice
from .define.site import Array, Site
from .direct import Layer, pack_weights, schedule_packed, takes_quantized
from .tuned import Tuned, unroll_all, unrolled_steps

__all__ = ["dot_algorithms", "dot_convolution", "shift_to"]


def dot_algorithms(site: Site, target: Target) -> list[str]:
    """Return the algorithms of this module that compute a node on a target, the best first.

    One output channel alone fills no vector, and weights, less their zero points, must fit the
    instruction's 8 bits.
    """
    if not takes_quantized(site):
        return []
    return [
        algorithm
        for algorithm in (QUADS, PAIRS)
        if dot_product(target, target.lanes(32), GROUPS[algorithm]) is not None
        and (algorithm == PAIRS or Layer.of(site).data.dtype == np.int8)
    ]


def shift_to(dtype: str, given: str) -> int:
    """Return what to add to integers of one dtype so that all fit another one."""
    if dtype == given or dtype == "int16":
        return 0
    return 128 if dtype == "uint8" else -128


def dot_convolution(site: Site, target: Target, choice: Choice) -> Tuned:
    """Return a convolution of quantized integers; its sums are exact in 32 bits.

    The image is brought to the dtype that the instruction takes: widened for pairs, so that
    neither it nor the weights need a shift of their range; shifted for quads, where the
    instruction takes the other signedness, and what that adds to the sums is taken off with the
    bias. Image and weights lie in groups of channels, the last one filled up with zeros::

        packed[n, cb, y, x, cg, k] = x[n, y - top, x - left, block * cb + group * cg + k] + shift
        sums[n, ob, y, x, l] = sum(packed[n, cb, sy * y + dy * i, sx * x + dx * j, cg, k]
                                   * weight[ob, cb, i, j, cg, l, k] for cb, i, j, cg, k)
    """
    layer = Layer.of(site, flat=choice.flat)
    lanes, group = choice.vectors * target.lanes(32), GROUPS[choice.algorithm]
    intrin = dot_product(target, lanes, group)
    assert intrin is not None
    kind, own = (operand.dtype for operand in intrin.operands)
    shift = shift_to(kind, site.input(0).dtype)
    _, rows, columns, depth = layer.data.shape
    full = -(-depth // group) * group
    block = choice.block
    data = layer.data.astype(own)
    weight = site.constant(_weights(data, block, lanes, group), site.tensors[1].name)
    sizes = {"cb": full // block, "i": rows, "j": columns, "cp": block // group, "k": group}
    axes = cb, i, j, cp, k = tuple(reduce_axis(size, name) for name, size in sizes.items())

    def brought(n: Expr, cb: Expr, h: Expr, w: Expr, cp: Expr, k: Expr) -> Expr:
        channel = cb * block + cp * group + k
        value = layer.surrounded(site, n, h, w, channel)
        value = value.wrap(kind) + shift if shift else value.astype(kind)
        return value if full == depth else select(channel.lt(depth), value, 0)

    packed = site.compute(
        (layer.shape[0], full // block, *layer.surrounded_size, block // group, group),
        brought,
        "packed",
    )

    def total(n: Expr, ob: Expr, h: Expr, w: Expr, lane: Expr) -> Expr:
        y, x = layer.position(h, w, i, j)
        value = packed[n, cb, y, x, cp, k]
        factor = weight[ob, cb, i, j, cp, lane, k]
        return sum_over(value.astype("int32") * factor.astype("int32"), axes)

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
        *steps, groups, each = held.reduce_axis
        steps += unrolled_steps(held, groups, choice.unrolled)
        *pixels, lane = held.axis
        held.reorder(*steps, *pixels, lane, each)
        unroll_all(held, pixels)
        held.vectorize(lane)
        held.tensorize(lane, intrin)
        schedule_packed(s[packed])

    return Tuned(layer.finished(site, sums, lanes, shift), (sums, packed), schedule)


def _weights(data: Array, block: int, lanes: int, group: int) -> Array:
    """Return weights as (O / lanes, I / block, H, W, block / group, lanes, group)."""
    missing = -data.shape[3] % group
    full = np.pad(data, ((0, 0), (0, 0), (0, 0), (0, missing)))
    packed = pack_weights(full, block, lanes)
    split = packed.reshape(*packed.shape[:4], block // group, group, lanes)
    return np.ascontiguousarray(split.transpose(0, 1, 2, 3, 4, 6, 5))
