"""What reaches OUT."""

from __future__ import annotations

import numpy as np

from tests.pinned.base import Pinned, pinned, unit
from vdla.isa import AluOp, MemoryType


@pinned
def store_reads_out_and_acc_loads_leave_it() -> Pinned:
    b = Pinned((5, 6, 7, 8))
    b.alu(AluOp.ADD, 0)
    b.load(MemoryType.ACC, 0, b.place(MemoryType.ACC, np.array([99] * 4, np.int32)), 1)
    b.show((5, 6, 7, 8))
    b.alu(AluOp.ADD, 0)
    b.show((99, 99, 99, 99))
    return b


@pinned
def alu_results_saturate_into_out() -> Pinned:
    b = Pinned((300, -300, 128, -129))
    b.alu(AluOp.ADD, 0)
    b.show((127, -128, 127, -128))
    b.alu(AluOp.SHR, 1)  # ACC kept all its bits: 150, -150, 64, -65
    b.show((127, -128, 64, -65))
    return b


@pinned
def gemm_results_saturate_into_out() -> Pinned:
    b = Pinned((0, 0, 0, 0))
    b.operands([(100, 0, 0, 0)], unit(100, -100, 1, -2))
    b.gemm()
    b.show((127, -128, 100, -128))
    b.alu(AluOp.SHR, 8)  # 10000, -10000, 100, -200 over 256, rounded down
    b.show((39, -40, 0, -1))
    return b


@pinned
def gemm_reset_writes_zero_to_acc_and_out() -> Pinned:
    b = Pinned((7, 7, 7, 7))
    b.alu(AluOp.ADD, 0)
    b.gemm(reset=True)
    b.show((0, 0, 0, 0))
    b.alu(AluOp.ADD, 3)
    b.show((3, 3, 3, 3))
    return b
