"""Max pooling on the ALU, columns and rows apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import pool_params
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, alu_imm
from vdla.compiler.te import (
    Expr,
    Schedule,
    Tensor,
    TensorIntrin,
    all_of,
    compute,
    create_schedule,
    maximum,
    minimum,
    placeholder,
    select,
)
from vdla.config import Config
from vdla.isa import AluOp

from .domain import DTYPES, signed
from .lowered import LoweredNode, blocks_of
from .mover import Mover, moves_by_product
from .pool_tiling import MaxPool, PoolTile, choose_pool_tile

__all__ = ["lower_max_pool", "unsupported_max_pool"]

_INT8 = (-128, 127)


def unsupported_max_pool(graph: Graph, node: Node) -> str | None:
    """Return why the ALU cannot take a node, or None."""
    data = graph.input_tensors(node)[0]
    if data.quant is None or str(data.dtype) not in DTYPES:
        return f"its tensors are not quantized {' or '.join(DTYPES)}"
    return None


def lower_max_pool(graph: Graph, node: Node, config: Config, *, vthreads: int) -> LoweredNode:
    """Return a max_pool2d node's schedule.

    The maximum over a window is taken over its columns first, then over rows of those: for a 3x3
    window of stride 2, 5 steps an output instead of 8.

    Raises
    ------
    LoweringError
        A window does not fit the scratchpads.
    """
    source, output = graph.input_tensors(node)[0], graph.output_tensor(node)
    batch, height, width, channels = source.shape
    pool = MaxPool(
        batch_blocks=blocks_of(batch, config.batch),
        blocks=blocks_of(channels, config.block_out),
        rows=output.shape[1],
        columns=output.shape[2],
        window=node.attrs["window"],
        strides=node.attrs["strides"],
        by_product=moves_by_product(config),
    )
    tile, cycles = choose_pool_tile(pool, config, vthreads)
    tail = (config.batch, config.block_out)
    data = placeholder((pool.batch_blocks, pool.blocks, height, width, *tail), "int8", "data")
    stages = _Stages(pool, config)
    params = signed(pool_params(graph, node), graph, node)
    padded = stages.load(data, node.attrs["padding"], params.pad_value)
    last = stages.maxima(padded)
    if params.clip[0] > _INT8[0]:
        last = stages.limit(last, params.clip[0], AluOp.MAX)
    if params.clip[1] < _INT8[1]:
        last = stages.limit(last, params.clip[1], AluOp.MIN)
    result = compute(pool.shape(tail), lambda *i: last(*i).astype("int8"), "result")
    return LoweredNode(
        stages.schedule(result, tile, vthreads),
        (data,),
        dict(stages.mover.constants),
        result,
        config.block_out,
        config.block_out,
        cycles,
    )


Reader = Callable[..., Expr]
"""An element by its six indices: image and channel blocks, row, column, image, channel."""


class _Stages:
    """The stages of a pooling operator, in order of their creation."""

    def __init__(self, pool: MaxPool, config: Config) -> None:
        self.mover = Mover(config)
        self._pool = pool
        self._config = config
        self._tail = (config.batch, config.block_out)
        self._arithmetic: list[tuple[Tensor, TensorIntrin]] = []

    def load(
        self, data: Tensor, padding: tuple[tuple[int, int], tuple[int, int]], fill: int
    ) -> Tensor:
        """Return the padded input in the scratchpad."""
        (top, bottom), (left, right) = padding
        n, c, height, width, *_ = data.shape

        def read(ni: Expr, ci: Expr, y: Expr, x: Expr, b: Expr, o: Expr) -> Expr:
            value = data[ni, ci, y - top, x - left, b, o]
            guards = []
            if top or bottom:
                guards += [(y + 0).ge(top), (y + 0).lt(top + height)]
            if left or right:
                guards += [(x + 0).ge(left), (x + 0).lt(left + width)]
            return select(all_of(*guards), value, fill) if guards else value

        shape = (n, c, height + top + bottom, width + left + right, *self._tail)
        return self.mover.load(shape, read, "pad")

    def maxima(self, padded: Tensor) -> Reader:
        """Return the maximum of each window.

        Rows whose places in their windows are congruent modulo the stride make one tensor. Where
        only one place falls into a tensor, no other window reads it, and it takes the maximum of
        all in place.
        """
        wanted = self._pool.classes(0)
        lines = {r: self._across(padded, r, self._pool.rows + max(q)) for r, q in wanted.items()}
        taps: list[tuple[Reader, bool]] = [
            (partial(_shifted, lines[r], rows=q), len(steps) == 1)
            for r, steps in wanted.items()
            for q in steps
        ]
        return self._fold(taps, self._pool.rows, "pooled")

    def _across(self, padded: Tensor, row: int, rows: int) -> Reader:
        """Return the maxima over columns of every ``strides[0]``-th row from ``row`` on."""
        pool, (sy, sx) = self._pool, self._pool.strides
        if not pool.by_product:
            taps: list[tuple[Reader, bool]] = [
                (partial(_strided, padded, row, j, sy, sx), False) for j in range(pool.window[1])
            ]
            return self._fold(taps, rows, f"across{row}")

        def moved(column: int, columns: int, name: str) -> Reader:
            def index(ni: Expr, ci: Expr, y: Expr, x: Expr) -> tuple[Expr, ...]:
                return ni, ci, y * sy + row, x * sx + column

            outer = (pool.batch_blocks, pool.blocks, rows, columns)
            tensor = self.mover.move((*outer, *self._tail), padded, index, name)
            return lambda *i: tensor[i]

        classes = pool.classes(1)
        taps = []
        for column, steps in classes.items():
            if len(classes) == 1 and len(steps) > 1:
                continue
            reader = moved(column, pool.columns + max(steps), f"column{row}.{column}")
            taps += [(partial(_shifted, reader, columns=q), len(steps) == 1) for q in steps]
        return self._with_own(taps, moved, classes, rows, row)

    def _with_own(
        self,
        taps: list[tuple[Reader, bool]],
        moved: Callable[[int, int, str], Reader],
        classes: dict[int, list[int]],
        rows: int,
        row: int,
    ) -> Reader:
        """Fold taps; where windows share every column, one tap is brought once more."""
        if not any(own for _, own in taps):
            column, steps = next(iter(classes.items()))
            if not taps:
                reader = moved(column, self._pool.columns + max(steps), f"column{row}.{column}")
                taps = [(partial(_shifted, reader, columns=q), False) for q in steps]
            taps[0] = (moved(column, self._pool.columns, f"own{row}"), True)
        return self._fold(taps, rows, f"across{row}")

    def _fold(self, taps: list[tuple[Reader, bool]], rows: int, name: str) -> Reader:
        """Return the maximum of taps, begun with one that may be overwritten."""
        taps = sorted(taps, key=lambda tap: not tap[1])
        last, own = taps[0]
        if len(taps) == 1 and not own:
            return self.limit(last, _INT8[0], AluOp.MAX, rows)  # a copy that lies in one piece
        for number, (tap, _) in enumerate(taps[1:]):
            before = last
            tensor = compute(
                self._pool.shape(self._tail, rows),
                lambda *i, a=before, b=tap: maximum(a(*i), b(*i)),
                f"{name}.{number}",
            )
            self._arithmetic.append((tensor, alu(self._config, AluOp.MAX)))
            last = partial(_shifted, lambda *i, t=tensor: t[i])
        return last

    def limit(self, value: Reader, bound: int, operation: AluOp, rows: int | None = None) -> Reader:
        """Return values limited to a bound."""
        function = maximum if operation is AluOp.MAX else minimum
        tensor = compute(
            self._pool.shape(self._tail, rows),
            lambda *i: function(value(*i), bound),
            operation.name.lower(),
        )
        self._arithmetic.append((tensor, alu_imm(self._config, operation)))
        return lambda *i: tensor[i]

    def schedule(self, result: Tensor, tile: PoolTile, vthreads: int) -> Schedule:
        """Return the schedule: everything at the loop over tiles."""
        s = create_schedule(result)
        self.mover.schedule(s)
        out = s[result]
        n, c, y, x, *_ = out.leaves
        c_o, c_i = out.split(c, factor=tile.blocks)
        y_o, y_i = out.split(y, factor=tile.rows)
        x_o, x_i = out.split(x, factor=tile.columns)
        loops = {"blocks": c_o, "rows": y_o, "columns": x_o}
        at = x_o
        if vthreads > 1:
            loops[tile.thread_axis], at = out.split(loops[tile.thread_axis], factor=vthreads)
            out.bind(at, "vthread")
        threads = [at] if vthreads > 1 else []
        out.reorder(n, *loops.values(), *threads, c_i, y_i, x_i)
        out.pragma(c_i, "dma_copy")
        for stage, intrin in self._arithmetic:
            s[stage].set_scope(Scope.ACC)
            s[stage].tensorize(s[stage].leaves[4], intrin)
        for stage in (*self.mover.stages, *(t for t, _ in self._arithmetic)):
            s[stage].compute_at(out, at)
        return s


def _shifted(read: Reader, *i: Expr, rows: int = 0, columns: int = 0) -> Expr:
    return read(
        i[0], i[1], i[2] + rows if rows else i[2], i[3] + columns if columns else i[3], *i[4:]
    )


def _strided(tensor: Tensor, row: int, column: int, sy: int, sx: int, *i: Expr) -> Expr:
    return tensor[i[0], i[1], i[2] * sy + row, i[3] * sx + column, i[4], i[5]]
