"""What instructions with nothing to do leave alone."""

from __future__ import annotations

import numpy as np

from tests.pinned.base import Pinned, pinned
from vdla.isa import AluOp, Finish, MemoryType, Store

UOP, ACC = MemoryType.UOP, MemoryType.ACC


@pinned
def an_iteration_count_of_0_does_nothing() -> Pinned:
    b = Pinned((7, 7, 7, 7))
    b.alu(AluOp.ADD, 0)
    b.gemm(reset=True, iter_out=0)
    b.gemm(reset=True, iter_in=0)
    b.alu(AluOp.ADD, 1, iter_out=0)
    b.alu(AluOp.ADD, 1, iter_in=0, end=1023)  # not even a check of its indices
    b.gemm(reset=True, end=0)
    b.show((7, 7, 7, 7))
    return b


@pinned
def no_columns_write_not_even_padding() -> Pinned:
    b = Pinned((7, 7, 7, 7), (8, 8, 8, 8))
    pads = {"y_pad_0": 1, "y_pad_1": 1, "x_pad_0": 1, "pad_value": 3}
    b.load(ACC, 0, 0, 0, **pads)
    b.load(ACC, 0, 0, 0, y_size=0, **pads)
    b.load(ACC, 9999, 1 << 29, 0, **pads)
    b.alu(AluOp.ADD, 0, iter_in=2, dst_factor_in=1)
    b.show((7, 7, 7, 7), (8, 8, 8, 8))
    target = b.reserve(1)
    b.load(UOP, 0, 0, 0, push_next=True)
    nothing = {"sram_base": 0, "dram_base": target, "push_prev": True}
    b.add(Store(x_size=1, y_size=0, pop_prev=True, **nothing))
    b.add(Store(x_size=0, y_size=9, **nothing))
    b.load(UOP, 0, 0, 0, pop_next=True)
    b.load(UOP, 0, 0, 0, pop_next=True)
    b.outputs.append((target, np.full((1, 4), 0x55, np.int8)))
    return b


@pinned
def nothing_runs_behind_finish() -> Pinned:
    b = Pinned((7, 7, 7, 7))
    b.alu(AluOp.ADD, 0)
    b.show((7, 7, 7, 7))
    target = b.reserve(1)
    b.add(Finish())
    b.add(Store(sram_base=0, dram_base=target, x_size=1))
    b.outputs.append((target, np.full((1, 4), 0x55, np.int8)))
    b.add(Finish())
    return b
