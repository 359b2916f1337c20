"""Dependence tokens: who must wait for whom, worked out from what instructions touch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import Gemm, ModuleName

from .ops import Op, Range

__all__ = ["link_tokens"]

_LOAD, _COMPUTE, _STORE = range(3)
_INDEX = {ModuleName.LOAD: _LOAD, ModuleName.COMPUTE: _COMPUTE, ModuleName.STORE: _STORE}
_DRAM_GRAIN = 4
"""Bytes that are told apart: no transfer moves part of such a word."""

Clock = list[int]
"""Per module: the last instruction known to have finished, -1 for none."""
_Table = list[NDArray[np.int32] | None]


class _History:
    """Per module, the last reader and the last writer of every entry of one memory."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.readers: _Table = [None, None, None]
        self.writers: _Table = [None, None, None]

    def record(self, table: _Table, module: int, r: Range, index: int) -> None:
        """Note that an instruction touched a range."""
        array = table[module]
        if array is None:
            array = table[module] = np.full(self._size, -1, np.int32)
        _view(array, r)[...] = index


def _view(array: NDArray[np.int32], r: Range) -> NDArray[np.int32]:
    if r.rows == 1:
        return array[r.start : r.start + r.size]
    step = array.itemsize
    return as_strided(array[r.start :], (r.rows, r.size), (r.stride * step, step))


class _Linker:
    """The stream so far and what each of its instructions waits for.

    ``clocks`` holds, for each instruction, what is known to have finished once it has itself;
    ``now`` the same of each module's last one.
    """

    def __init__(self, sizes: dict[str, int]) -> None:
        self.out: list[Op] = []
        self._clocks: list[Clock] = []
        self._now: list[Clock] = [[-1, -1, -1] for _ in range(3)]
        self._histories = {space: _History(size) for space, size in sizes.items()}
        # Compute's instructions, and what each knows of load and of store: both grow.
        self._computes: list[int] = []
        self._known: list[list[int]] = [[], [], []]

    def add(self, op: Op) -> None:
        """Append an instruction, joined by tokens to those it depends on."""
        module = _INDEX[op.module]
        reads = [(self._histories[r.space], _grained(r)) for r in op.reads]
        writes = [(self._histories[r.space], _grained(r)) for r in op.writes]
        needs = self._needs(module, reads, writes)
        if module != _COMPUTE:
            # load and store share no queue: compute hands the token on.
            far = _STORE if module == _LOAD else _LOAD
            if needs[far] > self._now[module][far]:
                needs[_COMPUTE] = max(needs[_COMPUTE], self._relay(far, needs[far], op.layer))
            needs[far] = -1
        index = self._append(op, module, needs)
        for history, r in reads:
            history.record(history.readers, module, r, index)
        for history, r in writes:
            history.record(history.writers, module, r, index)

    def finish(self, op: Op) -> None:
        """Append the last instruction, which waits for every module."""
        last = [-1, -1, -1]
        for index, before in enumerate(self.out):
            last[_INDEX[before.module]] = index
        last[_COMPUTE] = -1
        self._append(op, _COMPUTE, last)

    def _needs(
        self,
        own: int,
        reads: list[tuple[_History, Range]],
        writes: list[tuple[_History, Range]],
    ) -> Clock:
        needs = [-1, -1, -1]
        touched = [(h.writers, r) for h, r in reads]
        for history, r in writes:
            touched += [(history.writers, r), (history.readers, r)]
        for table, r in touched:
            for module in range(3):
                array = table[module]
                if array is not None and module != own:
                    found = int(_view(array, r).max(initial=-1))
                    needs[module] = max(needs[module], found)
        return needs

    def _relay(self, far: int, index: int, layer: int) -> int:
        """Return a compute instruction after which ``index`` of ``far`` is known to be done."""
        at = bisect_left(self._known[far], index)
        if at < len(self._computes):
            return self._computes[at]
        carrier = Op(ModuleName.COMPUTE, Gemm, _NOTHING.copy(), layer)
        needs = [-1, -1, -1]
        needs[far] = index
        return self._append(carrier, _COMPUTE, needs)

    def _append(self, op: Op, module: int, needs: Clock) -> int:
        index, clock = len(self.out), self._now[module]
        for other, wanted in enumerate(needs):
            if other == module or wanted <= clock[other]:
                continue
            pop, push = _FLAGS[other, module]
            self.out[wanted].flags[push] = True
            op.flags[pop] = True
            for k, known in enumerate(self._clocks[wanted]):
                if known > clock[k]:
                    clock[k] = known
        clock[module] = index
        self.out.append(op)
        self._clocks.append(clock.copy())
        if module == _COMPUTE:
            self._computes.append(index)
            for far in (_LOAD, _STORE):
                self._known[far].append(clock[far])
        return index


def _grained(r: Range) -> Range:
    if r.space != "dram":
        return r
    start = r.start // _DRAM_GRAIN
    size = -(-(r.start + r.size) // _DRAM_GRAIN) - start
    return Range(r.space, start, size, r.rows, r.stride // _DRAM_GRAIN)


_FLAGS = {
    (_LOAD, _COMPUTE): ("pop_prev", "push_next"),
    (_COMPUTE, _LOAD): ("pop_next", "push_prev"),
    (_COMPUTE, _STORE): ("pop_prev", "push_next"),
    (_STORE, _COMPUTE): ("pop_next", "push_prev"),
}
"""(producer, consumer): the consumer's flag, the producer's flag."""

_NOTHING = {"uop_begin": 0, "uop_end": 0, "iter_out": 0, "iter_in": 0}


def link_tokens(ops: Iterable[Op], config: Config, arena_bytes: int, finish: Op) -> list[Op]:
    """Return the stream with token flags set, hand-over instructions inserted, ``finish`` last.

    The stream's order is a legal sequential order, from virtual-thread interleaving. Of all pairs
    of instructions in different modules that touch the same place, one of them writing, the
    later must wait for the earlier. Both ends of a queue run in order, so of these pairs only
    those are kept that no kept pair implies (a vector clock a module tells): each wait costs one
    push and one pop, pushes and pops of a queue come in the same order on both ends, and every
    token pushed is popped.

    Before (two virtual threads)::

        load a0; load a1; gemm a0; gemm a1; load a0; load a1

    After::

        load a0 >n; load a1 >n; gemm a0 <p >p; gemm a1 <p >p; load a0 <n; load a1 <n

    Load and store share no queue; an empty GEMM in compute hands a token on between them.
    """
    sizes = {
        "inp": config.inp_depth,
        "wgt": config.wgt_depth,
        "out": config.acc_depth,
        "dram": -(-arena_bytes // _DRAM_GRAIN),
    }
    linker = _Linker(sizes)
    for op in ops:
        linker.add(op)
    linker.finish(finish)
    return linker.out
