"""Element-wise nodes on the ALU: addition of two scales, and rescaling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import AddParams, add_params, rescale_params
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, alu_imm, rq
from vdla.compiler.te import (
    Expr,
    Schedule,
    Tensor,
    TensorIntrin,
    compute,
    create_schedule,
    placeholder,
    requantize,
)
from vdla.config import Config
from vdla.errors import LoweringError
from vdla.isa import AluOp
from vdla.timing import compute_latency, store_latency, unloaded_load_latency

from .domain import DTYPES, signed
from .lowered import Array, LoweredNode, blocks_of
from .mover import Mover, moves_by_product
from .packing import requantize_params

__all__ = ["lower_elementwise", "unsupported_elementwise"]

_TILE_CYCLES = 12
"""Of every tile: parameters of two requantizations, and starting anew."""

_MOST_TILES = 256
"""Of one virtual thread; more of them are never better while a tile fits."""


def unsupported_elementwise(graph: Graph, node: Node) -> str | None:
    """Return why the ALU cannot take a node, or None."""
    tensors = (*graph.input_tensors(node), graph.output_tensor(node))
    if len({t.shape for t in tensors}) > 1:
        return "its inputs differ in shape"
    if any(t.is_constant for t in tensors[:-1]):
        return "an input is constant"
    if any(t.quant is None or str(t.dtype) not in DTYPES for t in tensors):
        return f"its tensors are not quantized {' or '.join(DTYPES)}"
    shifts = [rescale_params(graph, node).right_shift] if node.op != "add" else []
    if node.op == "add":
        add = add_params(graph, node)
        shifts += [*add.input_right_shift, add.output_right_shift]
    if not all(0 <= shift <= 31 for shift in shifts):
        return "a multiplier is not below 1"
    return None


_Set = tuple[int, int, int, int, str]
"""Bias, multiplier, right shift, zero point and rounding of a requantization."""


@dataclass(frozen=True)
class _Work:
    """What is done to each operand, then to their sum: shift left, requantize."""

    left_shifts: tuple[int, ...]
    scales: tuple[_Set | None, ...]
    final: _Set
    clip: tuple[int, int]

    @property
    def sets(self) -> list[_Set]:
        """The parameters of every requantization, in order."""
        return [*(scale for scale in self.scales if scale is not None), self.final]


def _addition(add: AddParams) -> _Work:
    """Return an addition's work; an operand whose multiplier is one half is shifted instead.

    Half of ``(q - zero) << 20`` is ``(q - zero) << 19`` with nothing to round. The operand of the
    larger scale has that multiplier. Its zero point moves into the bias of the sum.
    """
    shifts: list[int] = []
    scales: list[_Set | None] = []
    bias = 0
    for zero, multiplier, shift in zip(
        add.input_zero_point, add.input_multiplier, add.input_right_shift, strict=True
    ):
        if (multiplier, shift) == (1 << 30, 0):
            shifts.append(add.left_shift - 1)
            scales.append(None)
            bias -= zero << (add.left_shift - 1)
        else:
            shifts.append(add.left_shift)
            scales.append((-(zero << add.left_shift), multiplier, shift, 0, add.rounding))
    final = (
        bias,
        add.output_multiplier,
        add.output_right_shift,
        add.output_zero_point,
        add.rounding,
    )
    return _Work(tuple(shifts), tuple(scales), final, add.clip)


def _work(graph: Graph, node: Node) -> _Work:
    if node.op == "add":
        return _addition(signed(add_params(graph, node), graph, node))
    scale = signed(rescale_params(graph, node), graph, node)
    final = (
        -scale.input_zero_point,
        scale.multiplier,
        scale.right_shift,
        scale.output_zero_point,
        scale.rounding,
    )
    return _Work((0,), (None,), final, scale.clip)


def _entries(graph: Graph, node: Node, config: Config) -> int:
    """Return how many blocked entries the operator's tensors hold."""
    shape = graph.output_tensor(node).shape
    batch, rest = (shape[0], shape[1:-1]) if len(shape) > 1 else (1, ())
    blocks = blocks_of(batch, config.batch) * blocks_of(shape[-1], config.block_out)
    return blocks * int(np.prod(rest, dtype=np.int64))


def _params(sets: list[_Set], config: Config) -> NDArray[np.int32]:
    """Pack sets of parameters; the same for every channel."""
    lanes = np.ones(config.block_out, np.int32)
    parts = [
        requantize_params(lanes * bias, lanes * m, lanes * shift, zero, rounding, config)
        for bias, m, shift, zero, rounding in sets
    ]
    return np.concatenate(parts)


def lower_elementwise(graph: Graph, node: Node, config: Config, *, vthreads: int) -> LoweredNode:
    """Return an element-wise node's schedule with packed constants.

    The tensors are sequences of entries: blocked layouts of equal shape need no more structure.

    Raises
    ------
    LoweringError
        Not even one entry of each operand fits the accumulator buffer.
    """
    work = _work(graph, node)
    entries = _entries(graph, node, config)
    inputs = [
        placeholder((entries, config.batch, config.block_out), "int8", name)
        for name in ("a", "b")[: len(node.inputs)]
    ]
    params = placeholder((len(work.sets), 3, config.batch, config.block_out), "int32", "params")
    mover = Mover(config)
    size, cycles = _tile(entries, work, config, vthreads)
    schedule, result = _schedule(inputs, params, work, mover, size, config, vthreads)
    constants: dict[Tensor, Array] = {params: _params(work.sets, config), **mover.constants}
    block = config.block_out
    return LoweredNode(
        schedule, tuple(inputs), constants, result, block, block, graph.macs(node), cycles
    )


def _tile(entries: int, work: _Work, config: Config, vthreads: int) -> tuple[int, int]:
    """Return the entries of a tile, of one virtual thread, and the estimated cycles."""
    operands, params = len(work.scales), 3 * len(work.sets)
    copies = operands * vthreads
    room = (config.acc_depth - params) // copies
    if moves_by_product(config):
        room = min(room, config.inp_depth // copies)
    if room < 1:
        raise LoweringError(
            f"An element-wise tile must fit the scratchpads; {config.name} has "
            f"{config.acc_depth} acc entries for {params} parameters and {copies} operands, and "
            f"{config.inp_depth} inp entries: enlarge acc_bytes or inp_bytes."
        )
    beats = max(1, config.out_elem_bytes // config.axi_bytes)
    passes = sum(map(bool, work.left_shifts)) + len(work.sets) + 2 * (operands - 1)
    loads = operands * beats
    load, drain = unloaded_load_latency(config), compute_latency(config)
    by_product = moves_by_product(config)
    arithmetic = passes + (operands if by_product else loads)
    best: tuple[int, int] | None = None
    for rounds in range(1, _MOST_TILES + 1):
        tiles = min(rounds * vthreads, entries)
        size = -(-entries // tiles)
        if size > room and rounds < _MOST_TILES and tiles < entries:
            continue
        size = min(size, room)
        tiles = -(-entries // size)
        overhead = _TILE_CYCLES if by_product and vthreads > 1 else load + drain
        if by_product:
            serial = 1 if vthreads > 1 else 2
            steady = max(arithmetic, loads) if serial == 1 else arithmetic + loads
        else:
            steady = arithmetic
        cycles = entries * steady + tiles * overhead
        cycles += size * (loads + 1 + beats) + 2 * load + drain + store_latency(config)
        if best is None or cycles < best[1]:
            best = size, cycles
    assert best is not None
    return best


def _schedule(
    inputs: list[Tensor],
    params: Tensor,
    work: _Work,
    mover: Mover,
    size: int,
    config: Config,
    vthreads: int,
) -> tuple[Schedule, Tensor]:
    shape = inputs[0].shape
    stages: list[tuple[Tensor, TensorIntrin]] = []
    number = iter(range(len(work.sets)))

    def rescaled(x: Tensor, low: int, high: int, name: str) -> Tensor:
        k = next(number)

        def body(*i: Expr) -> Expr:
            bias, multiplier, packed = (params[k, part, i[1], i[2]] for part in range(3))
            return requantize(x[i], bias, multiplier, packed, low, high)

        stages.append((compute(shape, body, name), rq(config)))
        return stages[-1][0]

    def operand(x: Tensor, left: int, scaled: bool) -> Tensor:
        last = mover.load(shape, lambda *i: x[i], f"{x.name}.loaded")
        if moves_by_product(config):
            last = mover.move(shape, last, lambda entry: (entry,), f"{x.name}.wide")
        if left:
            wide = last
            last = compute(shape, lambda *i: wide[i] >> -left, f"{x.name}.shifted")
            stages.append((last, alu_imm(config, AluOp.SHR)))
        return rescaled(last, 0, -1, f"{x.name}.scaled") if scaled else last

    terms = [
        operand(x, left, scale is not None)
        for x, left, scale in zip(inputs, work.left_shifts, work.scales, strict=True)
    ]
    total = terms[0]
    if len(terms) == 2:
        total = compute(shape, lambda *i: terms[0][i] + terms[1][i], "sum")
        stages.append((total, alu(config, AluOp.ADD)))
    final = rescaled(total, *work.clip, "scaled")
    result = compute(shape, lambda *i: final[i].astype("int8"), "result")

    s = create_schedule(result)
    pbuf = s.cache_read(params, Scope.ACC, [t for t, _ in stages if params in s[t].reads()])
    s[pbuf].pragma(s[pbuf].leaves[0], "dma_copy")
    mover.schedule(s)
    out = s[result]
    outer, inner = out.split(out.leaves[0], factor=size)
    at = outer
    if vthreads > 1:
        outer, at = out.split(outer, factor=vthreads)
        out.bind(at, "vthread")
    out.pragma(inner, "dma_copy")
    for stage, intrin in stages:
        s[stage].set_scope(Scope.ACC)
        s[stage].tensorize(s[stage].leaves[1], intrin)
    for stage in (*mover.stages, *(t for t, _ in stages)):
        s[stage].compute_at(out, at)
    return s, result
