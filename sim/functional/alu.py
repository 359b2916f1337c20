"""ALU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

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
    its parameters from acc[src], acc[src + 1] and acc[src + 2] where src is not that of the
    micro-op before, and holds them where it is.
    """
    depth = state.config.acc_depth
    vector = state.config.batch * state.config.block_out * len(state.acc)
    is_rq = alu.alu_opcode is AluOp.RQ
    reads = 3 if is_rq else 0 if alu.use_imm else 1
    held = _Held(-1, np.empty(0, np.int32))
    for dst, src, _ in micro_ops(state.uop, alu, state.config, _BATCH_SCALARS // vector):
        require_below("ACC", dst, depth)
        if reads:
            require_below("ACC", src + (reads - 1), depth)
        if is_rq:
            for part in _parts(dst, src, np.diff(src, prepend=held.src) != 0):
                held = _requantize(state, dst[part], src[part], held, alu.imm)
            continue
        for members in _independent(dst, src, reads):
            targets = dst[members]
            operand = np.array(alu.imm, np.int32) if alu.use_imm else state.acc[:, src[members]]
            _write(state, targets, _OPERATIONS[alu.alu_opcode](state.acc[:, targets], operand))


def _write(state: State, dst: NDArray[np.int64], values: _Int32) -> None:
    state.acc[:, dst] = values
    state.out[:, dst] = saturate(values)


class _Held(NamedTuple):
    """RQ's parameters as last read: a copy of entries src, src + 1 and src + 2 of ACC."""

    src: int
    entries: _Int32

    def requantize(self, values: _Int32, clip: int) -> _Int32:
        bias, multiplier, packed = (self.entries[:, k : k + 1] for k in range(3))
        return requantize(values, bias, multiplier, packed, clip)


def _requantize(
    state: State, dst: NDArray[np.int64], src: NDArray[np.int64], held: _Held, clip: int
) -> _Held:
    """Requantize micro-ops of one part; return the parameters held behind it."""
    values = state.acc[:, dst]
    changed = np.flatnonzero(src != held.src)
    first = int(changed[0]) if len(changed) else len(src)  # up to there with what is held
    if first:
        values[:, :first] = held.requantize(values[:, :first], clip)
    after = held
    for entry in np.unique(src[first:]).tolist():  # few: one for each block of channels
        members = first + np.flatnonzero(src[first:] == entry)
        read = _Held(entry, state.acc[:, entry : entry + 3].copy())
        values[:, members] = read.requantize(values[:, members], clip)
        if entry == src[-1]:
            after = read
    _write(state, dst, values)
    return after


def _parts(
    dst: NDArray[np.int64], src: NDArray[np.int64], changed: NDArray[np.bool_]
) -> Iterator[slice]:
    """Split RQ's micro-ops where one reads what one before it in the same part writes.

    Parameters are read where src changed, and nowhere else.
    """
    sources = src[changed, np.newaxis] + np.arange(3)
    if len(np.unique(dst)) == len(dst) and not np.isin(sources, dst).any():
        yield slice(len(dst))
        return
    first, written = 0, set[int]()
    columns = zip(dst.tolist(), src.tolist(), changed.tolist(), strict=True)
    for i, (target, entry, reads) in enumerate(columns):
        if target in written or reads and not written.isdisjoint(range(entry, entry + 3)):
            yield slice(first, i)
            first, written = i, set()
        written.add(target)
    yield slice(first, len(dst))


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
