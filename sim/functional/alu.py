"""ALU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from vdla.isa import Alu, AluOp
from vdla.sim.loops import micro_ops, require_below

from .gemm import saturate
from .requantize import requantize
from .state import State

__all__ = ["execute_alu", "shift_right"]

_Int32 = NDArray[np.int32]
_BATCH_SCALARS = 1 << 22


def shift_right(values: _Int32, amount: _Int32) -> _Int32:
    """Return ``floor(values / 2**amount)`` in 32 bits that wrap; a negative amount shifts left."""
    wide, by = values.astype(np.int64), amount.astype(np.int64)
    right = wide >> np.clip(by, 0, 31)
    left = wide << np.clip(-by, 0, 32)
    return np.where(by >= 0, right, left).astype(np.int32)


_OPERATIONS: dict[AluOp, Callable[[_Int32, _Int32], _Int32]] = {
    AluOp.MIN: np.minimum,
    AluOp.MAX: np.maximum,
    AluOp.ADD: np.add,
    AluOp.SHR: shift_right,
    AluOp.MUL: np.multiply,
}
"""Each on int32 arrays, where numpy's sums and products wrap."""


def execute_alu(state: State, alu: Alu) -> None:
    """Apply a vector operation micro-op after micro-op.

    ``acc[dst] = acc[dst] op (imm or acc[src])``, then ``out[dst] = saturate(acc[dst])``. RQ reads
    its parameters from acc[src], acc[src + 1] and acc[src + 2].
    """
    depth = state.config.acc_depth
    vector = state.config.batch * state.config.block_out * len(state.acc)
    reads = 3 if alu.alu_opcode is AluOp.RQ else 0 if alu.use_imm else 1
    for dst, src, _ in micro_ops(state.uop, alu, state.config, _BATCH_SCALARS // vector):
        require_below("ACC", dst, depth)
        if reads:
            require_below("ACC", src + (reads - 1), depth)
        for members in _independent(dst, src, reads):
            targets = dst[members]
            result = _apply(state, alu, targets, src[members])
            state.acc[:, targets] = result
            state.out[:, targets] = saturate(result)


def _apply(state: State, alu: Alu, dst: NDArray[np.int64], src: NDArray[np.int64]) -> _Int32:
    acc, values = state.acc, state.acc[:, dst]
    if alu.alu_opcode is AluOp.RQ:
        for entry in np.unique(src).tolist():  # few: one for each block of channels
            members = np.flatnonzero(src == entry)
            bias, multiplier, packed = (acc[:, [entry + k]] for k in range(3))
            values[:, members] = requantize(values[:, members], bias, multiplier, packed, alu.imm)
        return values
    operand = np.array(alu.imm, dtype=np.int32) if alu.use_imm else acc[:, src]
    return _OPERATIONS[alu.alu_opcode](values, operand)


def _independent(
    dst: NDArray[np.int64], src: NDArray[np.int64], reads: int
) -> Iterator[NDArray[np.intp]]:
    """Yield groups of micro-ops that may execute at once, in an order that means the same.

    A micro-op comes after the writers of all it reads or writes, and not before the readers of
    what it writes: within a group everything is read before anything is written.
    """
    sources = src[:, np.newaxis] + np.arange(reads)
    if len(np.unique(dst)) == len(dst) and not np.isin(sources, dst).any():
        yield np.arange(len(dst))
        return
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    group = np.empty(len(dst), dtype=np.intp)
    for i, (target, operands) in enumerate(zip(dst.tolist(), sources.tolist(), strict=True)):
        after_writes = max(written.get(entry, -1) for entry in (target, *operands)) + 1
        level = max(after_writes, read.get(target, 0))
        group[i] = written[target] = level
        for entry in operands:
            read[entry] = max(level, read.get(entry, 0))
    order = np.argsort(group, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
