"""The schedule template of a convolution on the GEMM core."""

from __future__ import annotations

from vdla.compiler.targets.vdla.intrinsics import Scope, gemm, rq
from vdla.compiler.te import IterVar, Schedule, Stage, create_schedule
from vdla.compiler.te.expr import Const
from vdla.config import Config

from .conv2d import Added, ConvTensors, ConvTile

__all__ = ["schedule_conv2d"]


def schedule_conv2d(t: ConvTensors, tile: ConvTile, config: Config) -> Schedule:
    """Return the template's schedule for one choice of knobs.

    Loops over tiles of the result stand outside, two of them as virtual threads; inside, a loop
    over parts of the reduction loads inputs and weights and runs the GEMM core; what single
    weights add on top follows, then requantization and the store after a tile's last part.
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
    an, ak, ay, ax, ab, ao, rc, rp, ry, rx, ri = conv.leaves
    rc_o = None
    if isinstance(rc.extent, Const) and (t.listed is None or tile.in_blocks < rc.extent.value):
        rc_o, rc_i = conv.split(rc, factor=tile.in_blocks)
        conv.reorder(rc_o, an, ak, ay, ax, rc_i, rp, ry, rx, ab, ao, ri)
    else:
        conv.reorder(an, ak, rc, ay, ax, rp, ry, rx, ab, ao, ri)
    conv.tensorize(ab, gemm(config))
    for loaded in (wbuf, t.pad):
        if loaded is wbuf and tile.weights_outside:
            s[wbuf].compute_at(out, weights_at)
        elif rc_o is None or (loaded is t.pad and t.listed is not None):
            # All inputs stay until the listed products; weights first, as above.
            s[loaded].compute_at(out, at)
        else:
            s[loaded].compute_at(conv, rc_o)
    if t.listed is not None:
        _schedule_listed(s, t, out, at, config)

    s[t.scaled].compute_at(out, at)
    scaled = s[t.scaled].leaves
    if t.added is None:
        s[t.scaled].unroll(scaled[1])
    s[t.scaled].tensorize(scaled[4], rq(config))
    if tile.params_inside:
        s[pbuf].compute_at(out, at)
    for copied in (t.pad, wbuf, pbuf):
        s[copied].pragma(s[copied].leaves[0], "dma_copy")
    if t.added is not None:
        _schedule_added(s, t.added, out, at)
    return s


def _schedule_listed(s: Schedule, t: ConvTensors, out: Stage, at: IterVar, config: Config) -> None:
    """Add the listed products to a tile's sums while its inputs are there.

    Their weights are few and loaded once; each is an instruction over the rows and columns of the
    tile.
    """
    assert t.listed is not None
    assert t.listed_weights is not None
    buffer = s.cache_read(t.listed_weights, Scope.WGT, [t.listed])
    s[buffer].pragma(s[buffer].leaves[0], "dma_copy")
    stage = s[t.listed]
    n, k, y, x, b, o, entry, i = stage.leaves
    stage.reorder(n, k, entry, y, x, b, o, i)
    stage.set_scope(Scope.ACC)
    stage.tensorize(b, gemm(config))
    stage.compute_at(out, at)


def _schedule_added(s: Schedule, added: Added, out: Stage, at: IterVar) -> None:
    """Bring a tile of the other operand in, and add it after requantization."""
    readers = [x for x, _ in added.chain.stages if added.params in s[x].reads()]
    buffer = s.cache_read(added.params, Scope.ACC, readers)
    s[buffer].pragma(s[buffer].leaves[0], "dma_copy")
    added.mover.schedule(s)
    for stage, intrin in added.chain.stages:
        s[stage].set_scope(Scope.ACC)
        s[stage].tensorize(s[stage].leaves[4], intrin)
    for stage in (*added.mover.stages, *(x for x, _ in added.chain.stages)):
        s[stage].compute_at(out, at)
    # The first block is stored while the next is finished.
    last = s[added.chain.stages[-1][0]]
    last.unroll(last.leaves[1])
