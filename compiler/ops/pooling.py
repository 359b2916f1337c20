"""Max pooling on the ALU, rows and columns apart."""

from __future__ import annotations

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import pool_params
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, alu_imm
from vdla.compiler.te import (
    Expr,
    Tensor,
    all_of,
    compute,
    create_schedule,
    max_over,
    maximum,
    minimum,
    placeholder,
    reduce_axis,
    select,
)
from vdla.config import Config
from vdla.errors import LoweringError
from vdla.isa import AluOp

from .lowered import LoweredNode, blocks_of

__all__ = ["lower_max_pool", "unsupported_max_pool"]

_INT8 = (-128, 127)


def unsupported_max_pool(graph: Graph, node: Node) -> str | None:
    """Return why the ALU cannot take a node, or None."""
    data = graph.input_tensors(node)[0]
    if data.quant is None or str(data.dtype) != "int8":
        return "its tensors are not quantized int8"
    return None


def _tile(
    blocks: int, rows: int, row_step: int, reach: int, width: int, columns: int, room: int
) -> tuple[int, int] | None:
    """Return blocks and rows of the largest tile, most rows first."""
    for tile_rows in range(rows, 0, -1):
        entries = ((tile_rows - 1) * row_step + reach) * (width + columns) + tile_rows * columns
        if entries <= room:
            return min(blocks, room // entries), tile_rows
    return None


def lower_max_pool(graph: Graph, node: Node, config: Config, *, vthreads: int) -> LoweredNode:
    """Return a max_pool2d node's schedule.

    The maximum over a window is taken over its columns first, then over rows of those: for a 3x3
    window 6 steps an output instead of 9.

    Raises
    ------
    LoweringError
        A window does not fit the accumulator buffer.
    """
    data_tensor, output = graph.input_tensors(node)[0], graph.output_tensor(node)
    batch, height, width, channels = data_tensor.shape
    n, c = blocks_of(batch, config.batch), blocks_of(channels, config.block_out)
    (wy, wx), (sy, sx) = node.attrs["window"], node.attrs["strides"]
    (top, bottom), (left, right) = node.attrs["padding"]
    params = pool_params(graph, node)
    tail = (config.batch, config.block_out)
    rows, columns = output.shape[1], output.shape[2]
    data = placeholder((n, c, height, width, *tail), "int8", "data")

    def read(ni: Expr, ci: Expr, y: Expr, x: Expr, b: Expr, o: Expr) -> Expr:
        value = data[ni, ci, y - top, x - left, b, o].astype("int32")
        guards = []
        if top or bottom:
            guards += [(y + 0).ge(top), (y + 0).lt(top + height)]
        if left or right:
            guards += [(x + 0).ge(left), (x + 0).lt(left + width)]
        return select(all_of(*guards), value, params.pad_value) if guards else value

    high, wide = height + top + bottom, width + left + right
    pad = compute((n, c, high, wide, *tail), read, "pad")
    kx, ky = reduce_axis(wx, "kx"), reduce_axis(wy, "ky")
    across = compute(
        (n, c, high, columns, *tail),
        lambda ni, ci, y, x, b, o: max_over(pad[ni, ci, y, x * sx + kx, b, o], kx),
        "across",
    )
    shape = (n, c, rows, columns, *tail)
    pooled = compute(
        shape,
        lambda ni, ci, y, x, b, o: max_over(across[ni, ci, y * sy + ky, x, b, o], ky),
        "pooled",
    )
    stages: list[tuple[Tensor, AluOp]] = []
    last = pooled
    if params.clip[0] > _INT8[0]:
        last = _clipped(last, params.clip[0], AluOp.MAX)
        stages.append((last, AluOp.MAX))
    if params.clip[1] < _INT8[1]:
        last = _clipped(last, params.clip[1], AluOp.MIN)
        stages.append((last, AluOp.MIN))
    result = compute(shape, lambda *i: last[i].astype("int8"), "result")

    reach = wy
    tile = _tile(c, rows, sy, reach, wide, columns, config.acc_depth // vthreads)
    if tile is None:
        raise LoweringError(
            f"A pooling tile must fit the acc buffer; one row of windows needs "
            f"{reach * (wide + columns) + columns} of {config.acc_depth // vthreads} entries a "
            f"virtual thread on {config.name}: enlarge acc_bytes or place the layer on the cpu."
        )
    s = create_schedule(result)
    out = s[result]
    on, oc, oy, *_ = out.leaves
    c_o, c_i = out.split(oc, factor=tile[0])
    y_o, y_i = out.split(oy, factor=tile[1])
    out.reorder(on, c_o, y_o, c_i, y_i)
    at = y_o
    if vthreads > 1:
        y_o, at = out.split(y_o, factor=vthreads)
        out.bind(at, "vthread")
    out.pragma(c_i, "dma_copy")
    for stage in (pad, across, pooled, *(t for t, _ in stages)):
        s[stage].set_scope(Scope.ACC)
        s[stage].compute_at(out, at)
    s[pad].pragma(s[pad].leaves[0], "dma_copy")
    for stage in (across, pooled):
        *outer, b, o, k = s[stage].leaves
        s[stage].reorder(*outer, k, b, o)
        s[stage].tensorize(b, alu(config, AluOp.MAX))
    for stage, operation in stages:
        s[stage].tensorize(s[stage].leaves[4], alu_imm(config, operation))
    beats = max(1, config.out_elem_bytes // config.axi_bytes)
    loads = n * c * high * wide * beats
    steps = n * c * (high * columns * (2 * wx + 2) + rows * columns * (2 * wy + 2))
    return LoweredNode(s, (data,), {}, result, config.block_out, config.block_out, 0, loads + steps)


def _clipped(tensor: Tensor, bound: int, operation: AluOp) -> Tensor:
    limit = maximum if operation is AluOp.MAX else minimum
    return compute(tensor.shape, lambda *i: limit(tensor[i], bound), f"{operation.name.lower()}")
