"""A few short programs that between them use all that the planted faults break."""

from __future__ import annotations

import numpy as np

from tests.builder import Builder, Case
from vdla.config import TINY
from vdla.isa import RQ_PACK, Alu, AluOp, Gemm, MemoryType, Store

__all__ = ["arithmetic", "movement", "product"]

_LANES = TINY.batch * TINY.block_out


def _draw(seed: int, low: int, high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape)


def _store(sram: int, dram: int, **shape: int) -> Store:
    return Store(sram_base=sram, dram_base=dram, pop_prev=True, push_prev=True, **shape)


def movement() -> Case:
    """Blocks with padding and strides, over a page's end, through ACC to odd places."""
    b = Builder(TINY, gap=4)
    x = _draw(1, -128, 128, 12, _LANES).astype(np.int8)
    source = b.place(MemoryType.ACC_8BIT, x)
    b.place(MemoryType.OUT, np.full((4096 // 4 - 40, _LANES), 3, np.int8))
    long = b.place(MemoryType.ACC, _draw(2, -300, 300, 40, _LANES).astype(np.int32))
    other = b.place(MemoryType.INP, _draw(6, -128, 128, 300, TINY.block_in).astype(np.int8))
    target = b.reserve(80)
    # Nobody reads it: it competes with compute's loader for the bus.
    b.load(MemoryType.INP, 0, other, 300, y_size=1, x_stride=300)
    b.uops([(0, 0, 0), (18, 0, 0)])
    b.load(
        MemoryType.ACC_8BIT,
        0,
        source,
        3,
        y_size=2,
        x_stride=4,
        y_pad_0=1,
        x_pad_0=1,
        x_pad_1=2,
        pad_value=-7,
    )
    b.load(MemoryType.ACC, 18, long, 40, y_size=1, x_stride=40)
    b.add(
        Alu(
            alu_opcode=AluOp.ADD,
            uop_begin=0,
            uop_end=1,
            iter_in=58,
            dst_factor_in=1,
            use_imm=True,
            imm=1,
            push_next=True,
        )
    )
    b.add(_store(0, target + 1, y_size=3, x_size=6, x_stride=9))
    b.tokens(push_prev=False)
    b.add(
        Alu(
            alu_opcode=AluOp.MAX,
            uop_begin=1,
            uop_end=2,
            iter_in=40,
            dst_factor_in=1,
            use_imm=True,
            imm=5,
            push_next=True,
        )
    )
    b.add(_store(18, target + 31, y_size=1, x_size=40, x_stride=40))
    return b.case("movement")


def product() -> Case:
    """A product whose micro-ops add to one entry after another, then to the same one."""
    b = Builder(TINY)
    inp = b.place(MemoryType.INP, _draw(3, -128, 128, 40, TINY.block_in).astype(np.int8))
    wgt = b.place(
        MemoryType.WGT, _draw(4, -128, 128, 6, TINY.block_out, TINY.block_in).astype(np.int8)
    )
    target = b.reserve(16)
    b.uops([(0, 0, 0), (0, 1, 1), (1, 2, 2)])
    b.load(MemoryType.INP, 0, inp, 40, y_size=1, x_stride=40)
    b.load(MemoryType.WGT, 0, wgt, 6, y_size=1, x_stride=6, push_next=True)
    loops = {
        "uop_begin": 0,
        "uop_end": 3,
        "iter_out": 3,
        "iter_in": 2,
        "dst_factor_out": 2,
        "src_factor_out": 5,
        "src_factor_in": 3,
        "wgt_factor_in": 1,
    }
    b.add(Gemm(**loops, reset=True, pop_prev=True))
    b.add(Gemm(**loops))
    b.add(Gemm(**loops, push_next=True))
    b.add(_store(0, target, y_size=1, x_size=6, x_stride=6))
    return b.case("product")


def arithmetic() -> Case:
    """Slow operations that return to an entry, RQ with parameters that change, saturation."""
    b = Builder(TINY)
    packed = {"shift": 3, "zero_point": 4, "single": 0}
    word = sum((packed[bits.name] & ((1 << bits.width) - 1)) << bits.lsb for bits in RQ_PACK)
    values = _draw(5, -2000, 2000, 8, _LANES)
    values[0] = (-12, -20, 12, 20)  # ties after the multiplication by a half
    parameters = np.array([[0] * 4, [1 << 30] * 4, [word] * 4, [9] * 4, [1 << 29] * 4, [word] * 4])
    acc = b.place(MemoryType.ACC, np.concatenate([values, parameters]).astype(np.int32))
    target = b.reserve(20)
    b.uops([(0, 8, 0), (1, 11, 0), (2, 11, 0), (3, 8, 0), (4, 0, 0), (5, 0, 0)])
    b.load(MemoryType.ACC, 0, acc, 14, y_size=1, x_stride=14)
    rq = {"alu_opcode": AluOp.RQ, "iter_out": 1, "iter_in": 1, "imm": (127 << 8) + 0x80}
    b.add(Alu(**rq, uop_begin=0, uop_end=4))
    one = {"use_imm": True, "iter_out": 1, "iter_in": 1, "uop_begin": 4, "uop_end": 6}
    b.add(Alu(alu_opcode=AluOp.MUL, imm=-3, **one))
    b.add(Alu(alu_opcode=AluOp.SHR, imm=-2, **one))
    b.add(Alu(alu_opcode=AluOp.SHR, imm=1, **(one | {"uop_end": 5})))
    b.add(Alu(alu_opcode=AluOp.MUL, imm=5, **(one | {"uop_end": 5})))
    b.add(Alu(alu_opcode=AluOp.ADD, imm=1, push_next=True, **(one | {"uop_end": 5})))
    b.add(_store(0, target, y_size=1, x_size=6, x_stride=6))
    return b.case("arithmetic")
