"""What LOAD and STORE mean."""

from __future__ import annotations

import numpy as np

from tests.pinned.base import Pinned, pinned, unit
from vdla.isa import AluOp, MemoryType, Store

UOP, WGT, INP, ACC = MemoryType.UOP, MemoryType.WGT, MemoryType.INP, MemoryType.ACC


@pinned
def weights_take_padding() -> Pinned:
    b = Pinned((0, 0, 0, 0))
    b.load(INP, 0, b.place(INP, np.array([(1, 2, 3, 4)], np.int8)), 1)
    w = b.place(WGT, np.array(unit(9, 9, 9, 9), np.int8))
    b.load(WGT, 0, w, 1, x_pad_0=1, pad_value=2, push_next=True)
    b.load(UOP, 0, 0, 0, pop_prev=True)
    b.gemm()  # weight 0 is padding: all twos
    b.show((20, 20, 20, 20))
    b.gemm(overwrite=True, iter_in=2, wgt_factor_in=1)  # and weight 1 the data
    b.show((9, 9, 9, 9))
    return b


@pinned
def inputs_take_rows_strides_and_padding() -> Pinned:
    """Elements 0, 1 and 3, 4 of five, each row behind one -1 and below one row of them."""
    b = Pinned(*([(0, 0, 0, 0)] * 9))
    rows = [(k, 0, 0, 0) for k in (10, 11, 12, 13, 14)]
    inp = b.place(INP, np.array(rows, np.int8))
    b.load(INP, 0, inp, 2, y_size=2, x_stride=3, y_pad_0=1, x_pad_0=1, pad_value=-1)
    b.load(WGT, 0, b.place(WGT, np.array(unit(1, 1, 1, 1), np.int8)), 1, push_next=True)
    b.load(UOP, 0, 0, 0, pop_prev=True)
    b.gemm(iter_in=9, dst_factor_in=1, src_factor_in=1)
    b.show(*((v,) * 4 for v in (-1, -1, -1, -1, 10, 11, -1, 13, 14)))
    return b


@pinned
def micro_ops_take_rows_strides_and_padding() -> Pinned:
    """Micro-ops 1 and 3 of four, each behind a zero: dst 0, 1, 0, 3."""
    b = Pinned(*([(0, 0, 0, 0)] * 4), uops=[(2, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)])
    b.load(UOP, 0, 1, 1, y_size=2, x_stride=2, x_pad_0=1)
    b.alu(AluOp.ADD, 1, end=4)
    b.alu(AluOp.ADD, 0, iter_in=4, dst_factor_in=1)
    b.show((2, 2, 2, 2), (1, 1, 1, 1), (0, 0, 0, 0), (1, 1, 1, 1))
    return b


@pinned
def accumulators_from_bytes_are_sign_extended() -> Pinned:
    b = Pinned()
    base = b.place(MemoryType.ACC_8BIT, np.array([(0, 0, 0, 0), (-1, -128, 127, 1)], np.int8))
    b.load(MemoryType.ACC_8BIT, 0, base + 1, 1)  # counted in elements of four bytes
    b.alu(AluOp.SHR, 1)
    b.show((-1, -64, 63, 0))
    b.load(MemoryType.ACC_8BIT, 0, base + 1, 1)
    b.alu(AluOp.ADD, -1)  # -129 would have wrapped to 127 in a byte
    b.show((-2, -128, 126, 0))
    return b


@pinned
def the_pad_value_is_sign_extended() -> Pinned:
    b = Pinned()
    base = b.place(ACC, np.array([(1, 1, 1, 1)], np.int32))
    b.load(ACC, 0, base, 1, x_pad_0=1, pad_value=-3)
    b.load(MemoryType.ACC_8BIT, 2, 4 * base, 1, x_pad_1=1, pad_value=-128)
    b.alu(AluOp.SHR, 1, iter_in=4, dst_factor_in=1)
    b.show((-2, -2, -2, -2), (0, 0, 0, 0), (0, 0, 0, 0), (-64, -64, -64, -64))
    return b


@pinned
def no_rows_write_only_padding_and_read_no_memory() -> Pinned:
    """Two rows of two columns, wherever in memory the rows that are not there would stand."""
    b = Pinned(*([(7, 7, 7, 7)] * 5))
    pads = {"y_pad_0": 1, "y_pad_1": 1, "x_pad_0": 1, "pad_value": 3}
    b.load(ACC, 0, (1 << 30) - 1, 1, y_size=0, x_stride=9999, **pads)
    b.alu(AluOp.ADD, 0, iter_in=5, dst_factor_in=1)
    b.show(*([(3, 3, 3, 3)] * 4), (7, 7, 7, 7))
    return b


@pinned
def stores_write_rows_and_the_last_one_stays() -> Pinned:
    """Entries 0..3 as two rows of two: one apart, so that the second element is written twice."""
    b = Pinned((1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3), (4, 4, 4, 4))
    b.alu(AluOp.ADD, 0, iter_in=4, dst_factor_in=1, push_next=True)
    target = b.reserve(4)
    block = {"sram_base": 0, "dram_base": target, "y_size": 2, "x_size": 2}
    b.add(Store(**block, x_stride=1, pop_prev=True, push_prev=True))
    b.load(UOP, 0, 0, 0, pop_next=True)
    rows = np.array([(1,) * 4, (3,) * 4, (4,) * 4, (0x55,) * 4], np.int8)
    b.outputs.append((target, rows))
    return b
