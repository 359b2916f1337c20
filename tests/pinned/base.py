"""Building pinned cases on TINY, and the register of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.builder import Builder, Case
from vdla.config import TINY
from vdla.isa import Alu, AluOp, Finish, Gemm, MemoryType, Store

__all__ = ["LEAST", "MOST", "PINNED", "Pinned", "Row", "pinned", "unit"]

UOP, WGT, INP, ACC = MemoryType.UOP, MemoryType.WGT, MemoryType.INP, MemoryType.ACC
LEAST, MOST = -(1 << 31), (1 << 31) - 1
Row = Sequence[int]
PINNED: dict[str, Case] = {}


class Pinned(Builder):
    """Rows go to ACC from entry 0; `show` stores OUT entries and states what they must be."""

    def __init__(self, *rows: Row, uops: Sequence[tuple[int, int, int]] = ((0, 0, 0),)) -> None:
        super().__init__(TINY)
        self.outputs: list[tuple[int, np.ndarray]] = []
        self.uops(uops)
        if rows:
            base = self.place(ACC, np.array(rows, np.int32))
            self.load(ACC, 0, base, len(rows))

    def alu(self, operation: AluOp, imm: int | None = None, end: int = 1, **fields: Any) -> None:
        immediate = {} if imm is None else {"use_imm": operation is not AluOp.RQ, "imm": imm}
        self.add(
            Alu(**{"alu_opcode": operation, "uop_begin": 0, "uop_end": end} | immediate | fields)
        )

    def gemm(self, end: int = 1, **fields: Any) -> None:
        self.add(Gemm(**{"uop_begin": 0, "uop_end": end} | fields))

    def operands(self, inputs: Sequence[Row], *weights: Sequence[Row]) -> None:
        """Load INP rows and WGT blocks of four rows, one row an output lane."""
        self.load(INP, 0, self.place(INP, np.array(inputs, np.int8)), len(inputs))
        w = self.place(WGT, np.array(weights, np.int8))
        self.load(WGT, 0, w, len(weights), push_next=True)
        self.load(UOP, 0, 0, 0, pop_prev=True)

    def show(self, *rows: Row, entry: int = 0) -> None:
        target = self.reserve(len(rows))
        self.load(UOP, 0, 0, 0, push_next=True)
        self.add(
            Store(
                sram_base=entry, dram_base=target, x_size=len(rows), pop_prev=True, push_prev=True
            )
        )
        self.load(UOP, 0, 0, 0, pop_next=True)
        self.outputs.append((target, np.array(rows, np.int8)))


def pinned(function: Callable[[], Pinned]) -> Callable[[], Pinned]:
    """Register a case under its function's name."""
    builder = function()
    if not isinstance(builder.instructions[-1], Finish):
        builder.add(Finish())
    PINNED[function.__name__] = builder.case(function.__name__, *builder.outputs)
    return function


def unit(*rows: int) -> list[Row]:
    """A WGT block whose lane k picks the first input, times rows[k]."""
    return [(value, 0, 0, 0) for value in rows]
