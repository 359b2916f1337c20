"""VTA's unit-test programs, rebuilt from their shapes, for every model to run.

Each function takes a configuration and returns a `Case` whose outputs come from plain numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.builder import Builder, Case
from vdla.config import Config
from vdla.isa import Alu, AluOp, Finish, Gemm, Load, MemoryType, Store

__all__ = ["PROGRAMS", "alu_program", "dense", "gemm_blocks", "load_store", "matmul", "padded_load"]


def _random(config: Config, seed: int, low: int, high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng([seed, config.hash]).integers(low, high, shape)


def _lanes(config: Config) -> tuple[int, int]:
    return config.batch, config.block_out


def _pass(operation: AluOp, count: int, **fields: object) -> Alu:
    """Return an ALU pass over entries 0..count-1, with micro-op (0, 0, 0) at 0."""
    return Alu(
        alu_opcode=operation, uop_begin=0, uop_end=1, iter_in=count, dst_factor_in=1, **fields
    )


def _store(sram: int, dram: int, count: int) -> Store:
    return Store(sram_base=sram, dram_base=dram, x_size=count, pop_prev=True, push_prev=True)


def load_store(config: Config) -> Case:
    """A block of (6, 6, batch, block) through ACC and OUT."""
    b = Builder(config)
    x = _random(config, 1, -128, 128, 6, 6, *_lanes(config)).astype(np.int32)
    source, target = b.place(MemoryType.ACC, x), b.reserve(36)
    b.uops([(0, 0, 0)])
    b.load(MemoryType.ACC, 0, source, 6, y_size=6, x_stride=6)
    b.add(_pass(AluOp.SHR, 36, use_imm=True, push_next=True))
    b.add(
        Store(
            sram_base=0,
            dram_base=target,
            y_size=6,
            x_size=6,
            x_stride=6,
            pop_prev=True,
            push_prev=True,
        )
    )
    return b.case("load_store", (target, x.astype(np.int8)))


def padded_load(config: Config, pads: tuple[int, int, int, int], fill: int = 0) -> Case:
    """A block of (3, 5, batch, block) into ACC with padding above, below, left and right."""
    above, below, left, right = pads
    b = Builder(config)
    x = _random(config, 2, -128, 128, 3, 5, *_lanes(config)).astype(np.int32)
    y = np.pad(x, ((above, below), (left, right), (0, 0), (0, 0)), constant_values=fill)
    entries = y.shape[0] * y.shape[1]
    source, target = b.place(MemoryType.ACC, x), b.reserve(entries)
    b.uops([(0, 0, 0)])
    b.load(
        MemoryType.ACC,
        0,
        source,
        5,
        y_size=3,
        x_stride=5,
        y_pad_0=above,
        y_pad_1=below,
        x_pad_0=left,
        x_pad_1=right,
        pad_value=fill,
    )
    b.add(_pass(AluOp.SHR, entries, use_imm=True, push_next=True))
    b.add(_store(0, target, entries))
    return b.case(f"padded_load{pads}{fill}", (target, y.astype(np.int8)))


def gemm_blocks(config: Config, vthreads: int) -> Case:
    """4 x 4 x 4 blocks, shifted right and clipped, rows shared out to virtual threads."""
    rows, columns, depth = 4, 4, 4
    b = Builder(config)
    x = _random(config, 3, -128, 128, rows, depth, config.batch, config.block_in)
    w = _random(config, 4, -128, 128, columns, depth, config.block_out, config.block_in)
    acc = np.einsum("rkbi,ckoi->rcbo", x, w)
    y = np.clip(acc >> 8, 0, 127).astype(np.int8)
    inp, wgt = (
        b.place(MemoryType.INP, x.astype(np.int8)),
        b.place(MemoryType.WGT, w.astype(np.int8)),
    )
    target = b.reserve(rows * columns)
    # Outer loop over columns, inner over reduction blocks: one micro-op is enough.
    b.uops([(0, 0, 0)])
    for row in range(rows):
        thread = row % vthreads
        first = row < vthreads
        i, a = thread * depth, thread * columns
        b.uops([(a, i, 0)], sram=1 + thread) if first else None
        b.load(MemoryType.INP, i, inp + row * depth, depth, pop_next=not first)
        if row == 0:
            b.load(MemoryType.WGT, 0, wgt, columns * depth)
        b.tokens(push_next=True)
        loops = {
            "uop_begin": 1 + thread,
            "uop_end": 2 + thread,
            "iter_out": columns,
            "dst_factor_out": 1,
        }
        b.add(Gemm(**loops, reset=True, pop_prev=True, pop_next=not first))
        b.add(
            Gemm(
                **loops,
                iter_in=depth,
                src_factor_in=1,
                wgt_factor_out=depth,
                wgt_factor_in=1,
                push_prev=row + vthreads < rows,
            )
        )
        b.add(Alu(**loops, alu_opcode=AluOp.SHR, use_imm=True, imm=8))
        b.add(Alu(**loops, alu_opcode=AluOp.MAX, use_imm=True, imm=0))
        b.add(Alu(**loops, alu_opcode=AluOp.MIN, use_imm=True, imm=127, push_next=True))
        b.add(_store(a, target + row * columns, columns))
    for _ in range(vthreads - 1):  # FINISH takes the last store's token, these the others'
        b.load(MemoryType.UOP, 0, 0, 0, pop_next=True)
    return b.case(f"gemm_blocks{vthreads}", (target, y))


Operand = Callable[[np.ndarray, np.ndarray], np.ndarray]

_ALU: dict[str, tuple[tuple[int, int], Sequence[tuple[AluOp, int | None]], Operand]] = {
    "shift_left": ((8, 8), [(AluOp.SHR, -3)], lambda x, _: x << 3),
    "max_immediate": ((8, 8), [(AluOp.MAX, 3)], lambda x, _: np.maximum(x, 3)),
    "max_tensor": ((8, 8), [(AluOp.MAX, None)], np.maximum),
    "add_immediate": ((8, 8), [(AluOp.ADD, -7)], lambda x, _: x - 7),
    "add_tensor": ((8, 8), [(AluOp.ADD, None)], np.add),
    "shift_right": ((8, 8), [(AluOp.SHR, 2)], lambda x, _: x >> 2),
    "relu": ((8, 10), [(AluOp.MAX, 0), (AluOp.MIN, 127)], lambda x, _: np.clip(x, 0, 127)),
    "scale": (
        (2, 8),
        [(AluOp.MUL, 5), (AluOp.ADD, 9), (AluOp.SHR, 3)],
        lambda x, _: x * 5 + 9 >> 3,
    ),
}


def alu_program(config: Config, name: str) -> Case:
    """Load one or two tensors into ACC, apply operations, store."""
    (m, n), steps, expected = _ALU[name]
    b = Builder(config)
    x = _random(config, 5, -60, 60, m, n, *_lanes(config)).astype(np.int32)
    other = _random(config, 6, -60, 60, m, n, *_lanes(config)).astype(np.int32)
    first, second = b.place(MemoryType.ACC, x), b.place(MemoryType.ACC, other)
    count = m * n
    target = b.reserve(count)
    b.uops([(0, count, 0)])
    b.load(MemoryType.ACC, 0, first, n, y_size=m, x_stride=n)
    if any(imm is None for _, imm in steps):
        b.load(MemoryType.ACC, count, second, count)
    for operation, imm in steps:
        if imm is None:
            b.add(_pass(operation, count, src_factor_in=1))
        else:
            b.add(_pass(operation, count, use_imm=True, imm=imm))
    b.tokens(push_next=True)
    b.add(_store(0, target, count))
    return b.case(name, (target, np.clip(expected(x, other), -128, 127).astype(np.int8)))


def matmul(config: Config, size: int = 256, tile: int = 64) -> Case:
    """Multiply square matrices tile by tile, double-buffered by two virtual threads.

    Each thread owns half of INP, WGT and ACC. Output tiles alternate between the threads, and
    each tile's reduction steps load through that thread's half. Tiles shrink until both
    threads fit, which they do at 64 on the boards' configurations.
    """
    while not _tile_fits(config, tile):
        tile //= 2
    size = min(size, 4 * tile)
    rows, ki, co = tile // config.batch, tile // config.block_in, tile // config.block_out
    steps = size // tile
    b = Builder(config)
    x = _random(config, 7, -128, 128, size, size)
    w = _random(config, 8, -128, 128, size, size)  # (out, in)
    y = np.clip((x @ w.T) >> 8, -128, 127).astype(np.int8)
    blocked_x = _blocked(x, config.batch, config.block_in)
    blocked_w = _blocked(w, config.block_out, config.block_in)
    k_blocks, c_blocks = size // config.block_in, size // config.block_out
    inp = b.place(MemoryType.INP, blocked_x.astype(np.int8))
    wgt = b.place(MemoryType.WGT, blocked_w.astype(np.int8))
    target = b.reserve(size // config.batch * c_blocks)
    for thread in range(2):
        kernel = [
            (thread * rows * co + c, thread * rows * ki + k, thread * co * ki + c * ki + k)
            for c in range(co)
            for k in range(ki)
        ]
        b.uops(kernel, sram=thread * len(kernel))
    kernel_size = co * ki
    tiles = [(r, c) for r in range(steps) for c in range(steps)]
    for number in range(0, len(tiles), 2):
        pair = tiles[number : number + 2]
        for k in range(steps):
            for thread, (r, c) in enumerate(pair):
                fresh = number == 0 and k == 0
                b.load(
                    MemoryType.INP,
                    thread * rows * ki,
                    inp + r * rows * k_blocks + k * ki,
                    ki,
                    y_size=rows,
                    x_stride=k_blocks,
                    pop_next=not fresh,
                )
                b.load(
                    MemoryType.WGT,
                    thread * co * ki,
                    wgt + c * co * k_blocks + k * ki,
                    ki,
                    y_size=co,
                    x_stride=k_blocks,
                    push_next=True,
                )
                last_load = number + 2 >= len(tiles) and k == steps - 1
                b.add(
                    Gemm(
                        uop_begin=thread * kernel_size,
                        uop_end=(thread + 1) * kernel_size,
                        iter_in=rows,
                        dst_factor_in=co,
                        src_factor_in=ki,
                        pop_prev=True,
                        pop_next=number > 0 and k == 0,
                        push_prev=not last_load,
                    )
                )
                if k == 0:  # the first step overwrites with its first reduction block
                    b.instructions[-1:] = _peeled(b.instructions[-1], thread, kernel_size, ki)
        for thread, (r, c) in enumerate(pair):
            first = thread * rows * co
            b.add(
                Alu(
                    alu_opcode=AluOp.SHR,
                    use_imm=True,
                    imm=8,
                    uop_begin=thread * kernel_size,
                    uop_end=thread * kernel_size + 1,
                    iter_in=rows * co,
                    dst_factor_in=1,
                    push_next=True,
                )
            )
            b.add(
                Store(
                    sram_base=first,
                    dram_base=target + r * rows * c_blocks + c * co,
                    y_size=rows,
                    x_size=co,
                    x_stride=c_blocks,
                    pop_prev=True,
                    push_prev=True,
                )
            )
    b.load(MemoryType.UOP, 0, 0, 0, pop_next=True)
    return b.case(f"matmul{size}", (target, _blocked(y, config.batch, config.block_out)))


def _tile_fits(config: Config, tile: int) -> bool:
    rows, ki, co = tile // config.batch, tile // config.block_in, tile // config.block_out
    return (
        2 * rows * ki <= config.inp_depth
        and 2 * co * ki <= min(config.wgt_depth, config.uop_depth)
        and 2 * rows * co <= config.acc_depth
    )


def _blocked(matrix: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """(r, c) -> (r // rows, c // columns, rows, columns)."""
    r, c = matrix.shape
    split = matrix.reshape(r // rows, rows, c // columns, columns)
    return np.ascontiguousarray(split.swapaxes(1, 2))


def _peeled(gemm: Gemm, thread: int, kernel_size: int, ki: int) -> list[Gemm]:
    """Split a first reduction step: reset all its accumulators, then accumulate."""
    co = kernel_size // ki
    begin = thread * kernel_size
    reset = Gemm(
        uop_begin=begin,
        uop_end=begin + 1,
        iter_out=gemm.iter_in,
        dst_factor_out=gemm.dst_factor_in,
        iter_in=co,
        dst_factor_in=1,
        reset=True,
        pop_prev=gemm.pop_prev,
        pop_next=gemm.pop_next,
    )
    fields = {**gemm.__dict__, "pop_prev": False, "pop_next": False}
    return [reset, Gemm(**fields)]


def dense(config: Config, size: int = 128) -> Case:
    """A fully connected layer: overwrite, accumulate, then bias and requantization in one pass."""
    b = Builder(config)
    ki, co = size // config.block_in, size // config.block_out
    x = _random(config, 9, -128, 128, config.batch, size)
    w = _random(config, 10, -128, 128, size, size)
    bias = _random(config, 11, -(1 << 16), 1 << 16, size)
    multiplier = _random(config, 12, 1 << 30, 1 << 31, size)
    shift = _random(config, 13, 6, 12, size)
    zero_point = -5
    scaled = (x @ w.T + bias) * multiplier + (1 << 30 + shift) >> 31 + shift
    y = np.clip(scaled + zero_point, -128, 100).astype(np.int8)
    parameters = np.stack([bias, multiplier, shift | (zero_point & 255) << 8 | 1 << 16])
    # (3, size) -> (blocks, 3, batch, block_out): three entries for each block of outputs
    packed = parameters.reshape(3, co, 1, config.block_out).swapaxes(0, 1)
    packed = np.broadcast_to(packed, (co, 3, *_lanes(config))).astype(np.int32)
    inp = b.place(MemoryType.INP, _blocked(x, config.batch, config.block_in).astype(np.int8))
    blocked_w = _blocked(w, config.block_out, config.block_in).astype(np.int8)
    target = b.reserve(co)
    wgt, table = b.place(MemoryType.WGT, blocked_w), b.place(MemoryType.ACC, packed)
    b.load(MemoryType.INP, 0, inp, ki)
    # Weights come in as many passes over output blocks as WGT asks for.
    chunk = max(1, min(co, config.wgt_depth // ki))
    b.uops([(0, 0, 0), (0, co, 0)])
    b.load(MemoryType.ACC, co, table, 3 * co)
    for c in range(0, co, chunk):
        b.add(
            Load(
                memory_type=MemoryType.WGT,
                sram_base=0,
                dram_base=wgt + c * ki,
                x_size=chunk * ki,
                pop_next=c > 0,
                push_next=True,
            )
        )
        b.uops([(c, 0, 0)], sram=2)
        loops = {
            "uop_begin": 2,
            "uop_end": 3,
            "iter_out": chunk,
            "dst_factor_out": 1,
            "wgt_factor_out": ki,
        }
        b.add(Gemm(**loops, overwrite=True, pop_prev=True))
        if ki > 1:
            b.uops([(c, 1, 1)], sram=2)
            b.add(Gemm(**loops, iter_in=ki - 1, src_factor_in=1, wgt_factor_in=1))
        b.tokens(push_prev=c + chunk < co)
    clip = 100 << 8 | 0x80
    b.add(
        Alu(
            alu_opcode=AluOp.RQ,
            imm=clip,
            uop_begin=1,
            uop_end=2,
            iter_in=co,
            dst_factor_in=1,
            src_factor_in=3,
            push_next=True,
        )
    )
    b.add(_store(0, target, co))
    b.add(Finish(pop_next=True))
    return b.case("dense", (target, _blocked(y, config.batch, config.block_out)))


_PADS = ((2, 0, 0, 0), (0, 2, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2), (1, 0, 0, 0), (0, 1, 0, 0))
_MORE_PADS = ((0, 0, 1, 0), (0, 0, 0, 1), (2, 1, 2, 1), (1, 2, 1, 2))

PROGRAMS: dict[str, Callable[[Config], Case]] = {
    "load_store": load_store,
    **{
        f"padded_load{pads}": lambda config, pads=pads: padded_load(config, pads)
        for pads in (*_PADS, *_MORE_PADS)
    },
    "padded_load_filled": lambda config: padded_load(config, (1, 1, 1, 1), -3),
    "gemm_blocks1": lambda config: gemm_blocks(config, 1),
    "gemm_blocks2": lambda config: gemm_blocks(config, 2),
    **{name: lambda config, name=name: alu_program(config, name) for name in _ALU},
    "matmul": matmul,
    "dense": dense,
}
"""Every program by name, each a function of the configuration."""
