"""Element-wise nodes on the ALU: addition of two scales, and rescaling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import add_params, rescale_params
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, alu_imm, rq
from vdla.compiler.te import (
    Expr,
    Schedule,
    Tensor,
    compute,
    create_schedule,
    placeholder,
    requantize,
)
from vdla.config import Config
from vdla.errors import LoweringError
from vdla.isa import AluOp

from .lowered import LoweredNode, blocks_of
from .packing import requantize_params

__all__ = ["lower_elementwise", "unsupported_elementwise"]

_SETS = {"add": 3}


def unsupported_elementwise(graph: Graph, node: Node) -> str | None:
    """Return why the ALU cannot take a node, or None."""
    tensors = (*graph.input_tensors(node), graph.output_tensor(node))
    if len({t.shape for t in tensors}) > 1:
        return "its inputs differ in shape"
    if any(t.is_constant for t in tensors[:-1]):
        return "an input is constant"
    if any(t.quant is None or str(t.dtype) != "int8" for t in tensors):
        return "its tensors are not quantized int8"
    if node.op == "add":
        add = add_params(graph, node)
        shifts = (*add.input_right_shift, add.output_right_shift)
    else:
        shifts = (rescale_params(graph, node).right_shift,)
    if not all(0 <= shift <= 31 for shift in shifts):
        return "a multiplier is not below 1"
    return None


def _entries(graph: Graph, node: Node, config: Config) -> int:
    """Return how many blocked entries the operator's tensors hold."""
    shape = graph.output_tensor(node).shape
    batch, rest = (shape[0], shape[1:-1]) if len(shape) > 1 else (1, ())
    blocks = blocks_of(batch, config.batch) * blocks_of(shape[-1], config.block_out)
    return blocks * int(np.prod(rest, dtype=np.int64))


def _params(sets: list[tuple[int, int, int, int, str]], config: Config) -> NDArray[np.int32]:
    """Pack sets of bias, multiplier, shift, zero point, rounding; the same for every channel."""
    lanes = np.ones(config.block_out, np.int32)
    parts = [
        requantize_params(lanes * bias, lanes * m, lanes * shift, zero, rounding, config)
        for bias, m, shift, zero, rounding in sets
    ]
    return np.concatenate(parts)


def lower_elementwise(graph: Graph, node: Node, config: Config, *, vthreads: int) -> LoweredNode:
    """Return an element-wise node's schedule with packed constants.

    The tensors are sequences of entries: blocked layouts of equal shape need no more structure.
    """
    if node.op == "add":
        add = add_params(graph, node)
        sets = [
            (-(zero << add.left_shift), m, shift, 0, add.rounding)
            for zero, m, shift in zip(
                add.input_zero_point, add.input_multiplier, add.input_right_shift, strict=True
            )
        ]
        sets.append(
            (0, add.output_multiplier, add.output_right_shift, add.output_zero_point, add.rounding)
        )
        left_shift, clip = add.left_shift, add.clip
    else:
        scale = rescale_params(graph, node)
        zero = scale.output_zero_point
        sets = [
            (-scale.input_zero_point, scale.multiplier, scale.right_shift, zero, scale.rounding)
        ]
        left_shift, clip = 0, scale.clip
    entries = _entries(graph, node, config)
    inputs = [
        placeholder((entries, config.batch, config.block_out), "int8", name)
        for name in ("a", "b")[: len(node.inputs)]
    ]
    params = placeholder((len(sets), 3, config.batch, config.block_out), "int32", "params")
    schedule, result, cycles = _schedule(inputs, params, left_shift, clip, config, vthreads)
    constants = {params: _params(sets, config)}
    block = config.block_out
    return LoweredNode(
        schedule, tuple(inputs), constants, result, block, block, graph.macs(node), cycles
    )


def _schedule(
    inputs: list[Tensor],
    params: Tensor,
    left_shift: int,
    clip: tuple[int, int],
    config: Config,
    vthreads: int,
) -> tuple[Schedule, Tensor, int]:
    shape = inputs[0].shape

    def rescaled(x: Tensor, k: int, low: int, high: int, name: str) -> Tensor:
        def body(*i: Expr) -> Expr:
            entry = [params[k, part, i[1], i[2]] for part in range(3)]
            return requantize(x[i], *entry, low, high)

        return compute(shape, body, name)

    wide, shifted, scaled = [], [], []
    for k, x in enumerate(inputs):
        wide.append(compute(shape, lambda *i, x=x: x[i].astype("int32"), f"{x.name}.wide"))
        last = wide[-1]
        if left_shift:
            shifted.append(
                compute(shape, lambda *i, x=last: x[i] >> -left_shift, f"{x.name}.shifted")
            )
            last = shifted[-1]
        final = len(inputs) == 1
        low, high = clip if final else (0, -1)
        scaled.append(rescaled(last, k, low, high, f"{x.name}.scaled"))
    stages = [*shifted, *scaled]
    total = scaled[0]
    if len(inputs) == 2:
        added = compute(shape, lambda *i: scaled[0][i] + scaled[1][i], "sum")
        total = rescaled(added, 2, *clip, "scaled")
        stages += [added, total]
    result = compute(shape, lambda *i: total[i].astype("int8"), "result")

    s = create_schedule(result)
    pbuf = s.cache_read(params, Scope.ACC, [t for t in stages if params in s[t].reads()])
    out = s[result]
    entry = out.leaves[0]
    room = (config.acc_depth - 3 * params.shape[0]) // (len(inputs) * vthreads)
    if room < 1:
        raise LoweringError(
            f"An element-wise tile must fit the acc buffer; {config.name} has "
            f"{config.acc_depth} entries for {3 * params.shape[0]} parameters and "
            f"{len(inputs) * vthreads} operands: enlarge acc_bytes."
        )
    tiles = -(-shape[0] // (room * vthreads)) * vthreads
    outer, inner = out.split(entry, factor=-(-shape[0] // tiles))
    at = outer
    if vthreads > 1:
        outer, at = out.split(outer, factor=vthreads)
        out.bind(at, "vthread")
    out.pragma(inner, "dma_copy")
    for stage in (*wide, *stages):
        s[stage].set_scope(Scope.ACC)
        s[stage].compute_at(out, at)
    for stage in (*wide, pbuf):
        s[stage].pragma(s[stage].leaves[0], "dma_copy")
    for stage in shifted:
        s[stage].tensorize(s[stage].leaves[1], alu_imm(config, AluOp.SHR))
    for stage in scaled:
        s[stage].tensorize(s[stage].leaves[1], rq(config))
    if len(inputs) == 2:
        s[added].tensorize(s[added].leaves[1], alu(config, AluOp.ADD))
        s[total].tensorize(s[total].leaves[1], rq(config))
    beats = max(1, config.out_elem_bytes // config.axi_bytes)
    per_entry = len(inputs) * (beats + 2) + (3 if len(inputs) == 2 else 0)
    return s, result, shape[0] * per_entry + tiles * 2 * config.dram_latency_cycles
