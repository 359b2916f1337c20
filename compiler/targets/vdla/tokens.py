"""Dependence tokens: who must wait for whom, worked out from what instructions touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import Gemm, ModuleName

from .ops import Op, Range

__all__ = ["link_tokens"]

_LOAD, _COMPUTE, _STORE = ModuleName.LOAD, ModuleName.COMPUTE, ModuleName.STORE
_MODULES = (_LOAD, _COMPUTE, _STORE)
_DRAM_GRAIN = 4

Clock = dict[ModuleName, int]
"""Per module: the last instruction known to have finished, -1 for none."""


@dataclass
class _History:
    """Last reader and writer of every entry of one memory, a module each."""

    size: int
    readers: dict[ModuleName, NDArray[np.int32]] = field(default_factory=dict)
    writers: dict[ModuleName, NDArray[np.int32]] = field(default_factory=dict)

    def last(self, table: dict[ModuleName, NDArray[np.int32]], module: ModuleName, r: Range) -> int:
        """Return the last instruction of a module in ``table`` that touched a range, or -1."""
        if module not in table:
            return -1
        return int(_view(table[module], r).max(initial=-1))

    def record(
        self, table: dict[ModuleName, NDArray[np.int32]], module: ModuleName, r: Range, index: int
    ) -> None:
        """Note that an instruction touched a range."""
        if module not in table:
            table[module] = np.full(self.size, -1, np.int32)
        _view(table[module], r)[...] = index


def _view(array: NDArray[np.int32], r: Range) -> NDArray[np.int32]:
    if r.rows == 1:
        return array[r.start : r.start + r.size]
    step = array.itemsize
    return as_strided(array[r.start :], (r.rows, r.size), (r.stride * step, step))


@dataclass
class _Linker:
    sizes: dict[str, int]
    out: list[Op] = field(default_factory=list)
    histories: dict[str, _History] = field(default_factory=dict)
    clocks: list[Clock] = field(default_factory=list)
    """Per instruction: what is known to have finished once it has itself."""
    now: dict[ModuleName, Clock] = field(default_factory=dict)

    def add(self, op: Op) -> None:
        """Append an instruction, joined by tokens to those it depends on."""
        needs = self._needs(op)
        if op.module is not _COMPUTE:
            # load and store share no queue: compute hands the token on.
            far = _STORE if op.module is _LOAD else _LOAD
            if needs[far] > self.now[op.module][far]:
                needs[_COMPUTE] = max(needs[_COMPUTE], self._relay(far, needs[far], op.layer))
        self._append(op, needs)

    def _needs(self, op: Op) -> Clock:
        needs: Clock = dict.fromkeys(_MODULES, -1)
        for module in _MODULES:
            if module is op.module:
                continue
            for r in op.reads:
                history = self._history(r.space)
                found = history.last(history.writers, module, _grained(r))
                needs[module] = max(needs[module], found)
            for r in op.writes:
                history = self._history(r.space)
                for table in (history.writers, history.readers):
                    needs[module] = max(needs[module], history.last(table, module, _grained(r)))
        return needs

    def _relay(self, far: ModuleName, index: int, layer: int) -> int:
        """Return a compute instruction after which ``index`` of ``far`` is known to be done."""
        known = self.now[_COMPUTE][far]
        if known >= index:
            return next(
                k
                for k, (op, clock) in enumerate(zip(self.out, self.clocks, strict=True))
                if op.module is _COMPUTE and clock[far] >= index
            )
        carrier = Op(_COMPUTE, Gemm, _NOTHING.copy(), layer)
        self._append(carrier, {**dict.fromkeys(_MODULES, -1), far: index})
        return len(self.out) - 1

    def _append(self, op: Op, needs: Clock) -> None:
        index, clock = len(self.out), self.now[op.module]
        for module, wanted in needs.items():
            if module is op.module or wanted <= clock[module]:
                continue
            pop, push = _FLAGS[module, op.module]
            self.out[wanted].flags[push] = True
            op.flags[pop] = True
            for other, known in self.clocks[wanted].items():
                clock[other] = max(clock[other], known)
        clock[op.module] = index
        self.out.append(op)
        self.clocks.append(dict(clock))
        for r in op.reads:
            history = self._history(r.space)
            history.record(history.readers, op.module, _grained(r), index)
        for r in op.writes:
            history = self._history(r.space)
            history.record(history.writers, op.module, _grained(r), index)

    def _history(self, space: str) -> _History:
        if space not in self.histories:
            self.histories[space] = _History(self.sizes[space])
        return self.histories[space]


def _grained(r: Range) -> Range:
    if r.space != "dram":
        return r
    return Range(
        r.space, r.start // _DRAM_GRAIN, r.size // _DRAM_GRAIN, r.rows, r.stride // _DRAM_GRAIN
    )


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
    linker.now = {module: dict.fromkeys(_MODULES, -1) for module in _MODULES}
    for op in ops:
        linker.add(op)
    last = dict.fromkeys(_MODULES, -1)
    for index, op in enumerate(linker.out):
        last[op.module] = index
    linker._append(finish, {**last, _COMPUTE: -1})
    return linker.out
