"""An addition computed on a convolution's tile, before it is stored."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.graph import Graph, Node
from vdla.compiler.te import compute, placeholder
from vdla.config import Config

from .chain import Chain, Work, work_of
from .conv2d import Added, ConvTensors
from .elementwise import unsupported_elementwise
from .mover import Mover, moves_by_product

__all__ = ["PRODUCERS", "add_onto", "other_operand", "unsupported_addition", "work_onto"]

PRODUCERS = ("conv2d", "dense", "depthwise_conv2d")
"""Operators onto whose tiles an addition is computed."""


def unsupported_addition(graph: Graph, node: Node, addition: Node, config: Config) -> str | None:
    """Return why an addition cannot be computed on the tiles of `node`, or None."""
    if node.op not in PRODUCERS or addition.op != "add":
        return "it is no addition onto a convolution"
    if addition.inputs.count(node.outputs[0]) != 1:
        return "it adds the convolution to itself"
    if not moves_by_product(config):
        return f"{config.name} has other blocks on the way in than on the way out"
    return unsupported_elementwise(graph, addition)


def other_operand(node: Node, addition: Node) -> str:
    """Return the tensor that is added to the output of `node`."""
    return next(name for name in addition.inputs if name != node.outputs[0])


def work_onto(graph: Graph, node: Node, addition: Node) -> Work:
    """Return the work of an addition whose first operand is the output of `node`."""
    work = work_of(graph, addition)
    return work if addition.inputs[0] == node.outputs[0] else work.reversed()


def add_onto(t: ConvTensors, work: Work, config: Config) -> ConvTensors:
    """Return a convolution's stages with an addition behind them.

    Before: ``acc -> scaled -> result``. After: ``acc -> scaled -> shifted -> ... -> added ->
    result``, beside ``data -> loaded -> wide -> shifted -> ...`` of the other operand.
    """
    shape = t.result.shape
    data = placeholder(shape, "int8", "addend")
    params = placeholder((len(work.sets), 3, config.batch, config.block_out), "int32", "add_params")
    mover, chain = Mover(config), Chain(shape, work, params, config)
    first = chain.operand(0, t.scaled, "sum")
    loaded = mover.load(shape, lambda *i: data[i], "addend.loaded")
    wide = mover.move(shape, loaded, lambda *i: i, "addend.wide")
    final = chain.finish([first, chain.operand(1, wide, "addend")])
    result = compute(shape, lambda *i: final[i].astype("int8"), "result")
    return replace(t, result=result, added=Added(data, params, mover, chain))
