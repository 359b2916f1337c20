"""Element-wise nodes on the ALU: addition of two scales, and rescaling."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import add_params, rescale_params
from vdla.compiler.targets.vdla.intrinsics import Scope
from vdla.compiler.te import (
    Schedule,
    Tensor,
    compute,
    create_schedule,
    placeholder,
)
from vdla.config import Config
from vdla.errors import LoweringError
from vdla.timing import compute_latency, store_latency, unloaded_load_latency

from .chain import Chain, Work, work_of
from .domain import DTYPES
from .lowered import Array, LoweredNode, blocks_of
from .mover import Mover, moves_by_product

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
    if node.op == "leaky_relu" and not 0 <= node.attrs["alpha"] <= 1:
        return "its slope is not in 0..1"
    if node.op == "leaky_relu":
        shifts = [shift for _, _, shift, _, _ in work_of(graph, node).sets]
    else:
        shifts = [rescale_params(graph, node).right_shift] if node.op != "add" else []
    if node.op == "add":
        add = add_params(graph, node)
        shifts += [*add.input_right_shift, add.output_right_shift]
    if not all(0 <= shift <= 31 for shift in shifts):
        return "a multiplier is not below 1"
    return None


def _entries(graph: Graph, node: Node, config: Config) -> int:
    """Return how many blocked entries the operator's tensors hold."""
    shape = graph.output_tensor(node).shape
    batch, rest = (shape[0], shape[1:-1]) if len(shape) > 1 else (1, ())
    blocks = blocks_of(batch, config.batch) * blocks_of(shape[-1], config.block_out)
    return blocks * int(np.prod(rest, dtype=np.int64))


def lower_elementwise(graph: Graph, node: Node, config: Config, *, vthreads: int) -> LoweredNode:
    """Return an element-wise node's schedule with packed constants.

    The tensors are sequences of entries: blocked layouts of equal shape need no more structure.

    Raises
    ------
    LoweringError
        Not even one entry of each operand fits the accumulator buffer.
    """
    work = work_of(graph, node)
    entries = _entries(graph, node, config)
    inputs = [
        placeholder((entries, config.batch, config.block_out), "int8", name)
        for name in ("a", "b")[: len(node.inputs)]
    ]
    params = placeholder((len(work.sets), 3, config.batch, config.block_out), "int32", "params")
    mover = Mover(config)
    size, cycles = _tile(entries, len(inputs), work, config, vthreads)
    schedule, result = _schedule(inputs, params, work, mover, size, config, vthreads)
    constants: dict[Tensor, Array] = {params: work.packed(config), **mover.constants}
    block = config.block_out
    return LoweredNode(schedule, tuple(inputs), constants, result, block, block, cycles)


def _tile(entries: int, inputs: int, work: Work, config: Config, vthreads: int) -> tuple[int, int]:
    """Return the entries of a tile, of one virtual thread, and the estimated cycles."""
    operands, params = len(work.scales), 3 * len(work.sets)
    copies = operands * vthreads
    room = (config.acc_depth - params) // copies
    if moves_by_product(config):
        room = min(room, config.inp_depth // (inputs * vthreads))
    if room < 1:
        raise LoweringError(
            f"An element-wise tile must fit the scratchpads; {config.name} has "
            f"{config.acc_depth} acc entries for {params} parameters and {copies} operands, and "
            f"{config.inp_depth} inp entries: enlarge acc_bytes or inp_bytes."
        )
    beats = max(1, config.out_elem_bytes // config.axi_bytes)
    loads = (inputs if moves_by_product(config) else operands) * beats
    load, drain = unloaded_load_latency(config), compute_latency(config)
    by_product = moves_by_product(config)
    arithmetic = work.passes + (operands if by_product else loads)
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
    work: Work,
    mover: Mover,
    size: int,
    config: Config,
    vthreads: int,
) -> tuple[Schedule, Tensor]:
    shape = inputs[0].shape
    chain = Chain(shape, work, params, config)

    by_product = moves_by_product(config)
    loaded: dict[Tensor, Tensor] = {}

    def operand(k: int) -> Tensor:
        """Bring an input to ACC; one that is two operands twice, each is worked on in place."""
        x = inputs[k % len(inputs)]
        name = x.name if k < len(inputs) else f"{x.name}.again"
        if x not in loaded or not by_product:
            loaded[x] = mover.load(shape, lambda *i: x[i], f"{name}.loaded")
        last = loaded[x]
        if by_product:
            last = mover.move(shape, last, lambda entry: (entry,), f"{name}.wide")
        return chain.operand(k, last, name)

    terms = [operand(k) for k in range(len(work.scales))]
    final = chain.finish(terms)
    result = compute(shape, lambda *i: final[i].astype("int8"), "result")

    s = create_schedule(result)
    pbuf = s.cache_read(params, Scope.ACC, [t for t, _ in chain.stages if params in s[t].reads()])
    s[pbuf].pragma(s[pbuf].leaves[0], "dma_copy")
    mover.schedule(s)
    out = s[result]
    outer, inner = out.split(out.leaves[0], factor=size)
    at = outer
    if vthreads > 1:
        outer, at = out.split(outer, factor=vthreads)
        out.bind(at, "vthread")
    out.pragma(inner, "dma_copy")
    for stage, intrin in chain.stages:
        s[stage].set_scope(Scope.ACC)
        s[stage].tensorize(s[stage].leaves[1], intrin)
    for stage in (*mover.stages, *(t for t, _ in chain.stages)):
        s[stage].compute_at(out, at)
    return s, result
