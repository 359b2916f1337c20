"""What a run of the cycle model returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vdla.isa import MemoryType, Opcode
from vdla.program import Program
from vdla.timing import INSTRUCTION_BYTES, TIMING

from .account import Cause, attribute, spans
from .state import State
from .table import MODULES, QUEUES, Table

__all__ = ["CycleResult", "LayerCycles"]

_EVENT = np.dtype([("cycle", "i8"), ("instruction", "i8"), ("module", "i1"), ("finish", "?")])


@dataclass(frozen=True)
class LayerCycles:
    """A layer's share of a run.

    Attributes
    ----------
    name : str
    begin, end : int
        Its window in cycles: from the previous layer's last completed store to its own. The
        last layer's reaches to the done bit, so that windows sum to the total.
    bytes_read, bytes_written : int
        Moved by its LOADs and STOREs.
    waiting : dict of str to dict of str to int
        Cycles of the window by module and cause, `busy` among them.
    """

    name: str
    begin: int
    end: int
    bytes_read: int
    bytes_written: int
    waiting: Mapping[str, Mapping[str, int]]

    @property
    def cycles(self) -> int:
        """Length of the window."""
        return self.end - self.begin


@dataclass(frozen=True, eq=False)
class CycleResult:
    """Timing of one run; everything else is derived from it when it is asked for.

    Attributes
    ----------
    program : Program
    table : Table
    state : State
        What the engine recorded.
    fill : ndarray of int64
        The micro-ops that LOADs of UOP wrote.
    """

    program: Program
    table: Table
    state: State
    fill: NDArray[np.int64]

    @property
    def cycles(self) -> int:
        """Cycles from the start bit to the done bit."""
        return int(self.finish[-1]) + 1

    @property
    def start(self) -> NDArray[np.int64]:
        """Cycle in which each instruction starts, up to FINISH, shape (n,)."""
        return self.state.log["start"]

    @property
    def finish(self) -> NDArray[np.int64]:
        """Cycle in which each instruction retires, shape (n,)."""
        return self.state.log["finish"]

    @property
    def leftover_tokens(self) -> dict[str, int]:
        """Tokens left in each queue that is not empty in the end."""
        left = self.state.queue["pushes"] - self.state.queue["pops"]
        return {q.value: int(n) for q, n in zip(QUEUES, left, strict=True) if n}

    @property
    def unfinished(self) -> NDArray[np.int64]:
        """Instructions that retire only after FINISH, which nothing made wait for them."""
        return np.flatnonzero(self.finish > self.finish[-1])

    @property
    def instructions(self) -> dict[str, int]:
        """Instructions executed by each module."""
        return {m.value: int(n) for m, n in zip(MODULES, self.state.module["count"], strict=True)}

    @cached_property
    def counters(self) -> dict[str, dict[str, int]]:
        """Cycles of each module by cause; each module's sum to `cycles`. See `Cause`."""
        return _named(self._attributed.sum(axis=1))

    @property
    def bytes_read(self) -> int:
        """Bytes that LOADs take from memory; instructions are not among them."""
        return int(self._bytes[self._is_load].sum())

    @property
    def bytes_written(self) -> int:
        """Bytes that STOREs give to memory."""
        return int(self._bytes[~self._is_load].sum())

    @property
    def bytes_fetched(self) -> int:
        """Bytes of instructions."""
        return INSTRUCTION_BYTES * len(self.start)

    @cached_property
    def buffers(self) -> dict[str, tuple[int, int]]:
        """Element reads and writes of each scratchpad by name."""
        return _buffer_accesses(self.table, self.state.log["parameter_reads"])

    @property
    def events(self) -> NDArray[np.void]:
        """Starts and finishes in time order.

        Fields ``cycle``, ``instruction``, ``module`` (0 load, 1 compute, 2 store), ``finish``.
        """
        n = len(self.start)
        events = np.empty(2 * n, _EVENT)
        events["cycle"] = np.concatenate([self.start, self.finish])
        events["instruction"] = np.tile(np.arange(n), 2)
        events["module"] = np.tile(self.table.columns["module"], 2)
        events["finish"] = np.repeat([False, True], n)
        return events[np.argsort(events["cycle"], kind="stable")]

    def token_levels(self, queue: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return when a queue's level changes, and the level from then on.

        Parameters
        ----------
        queue : str
            Such as ``load->compute``.

        Returns
        -------
        cycles, levels : ndarray of int64
            A push or a pop in cycle c changes the level of cycle c + 1.
        """
        q = [name.value for name in QUEUES].index(queue)
        pushed = self.state.pushed[q, : self.state.queue["pushes"][q]] + 1
        popped = self.state.popped[q, : self.state.queue["pops"][q]] + 1
        cycles = np.unique(np.concatenate([pushed, popped]))
        levels = np.searchsorted(pushed, cycles, "right") - np.searchsorted(popped, cycles, "right")
        return cycles, levels.astype(np.int64)

    def spans(self, module: str) -> NDArray[np.void]:
        """Return what a module does from cycle 0 to the end, in spans that sum to `cycles`.

        Parameters
        ----------
        module : str
            ``load``, ``compute`` or ``store``.

        Returns
        -------
        ndarray
            Fields ``begin``, ``end`` (the cycle after its last) and ``cause``, a `Cause`.
        """
        m = [name.value for name in MODULES].index(module)
        columns, log = self.table.columns, self.state.log
        return spans(columns, log, m, self.cycles, TIMING.queue_cycles)

    @cached_property
    def layers(self) -> tuple[LayerCycles, ...]:
        """The layers that store something, in the order of their last stores."""
        names, ends = self._windows
        layer_of = self.program.layer_of[: len(self.start)]
        begin, rows = 0, []
        for window, (layer, end) in enumerate(zip(names, ends.tolist(), strict=True)):
            mine = layer_of == layer
            rows.append(
                LayerCycles(
                    name=self.program.labels[layer],
                    begin=begin,
                    end=end,
                    bytes_read=int(self._bytes[mine & self._is_load].sum()),
                    bytes_written=int(self._bytes[mine & ~self._is_load].sum()),
                    waiting=_named(self._attributed[:, window]),
                )
            )
            begin = end
        return tuple(rows)

    @cached_property
    def _windows(self) -> tuple[list[int], NDArray[np.int64]]:
        """Layers with a store, by its end, and the ends, the last moved to the total."""
        layer_of = self.program.layer_of[: len(self.start)]
        stores = (self.table.fields["opcode"] == Opcode.STORE) & (layer_of >= 0)
        last = np.full(len(self.program.labels), -1)
        np.maximum.at(last, layer_of[stores], self.finish[stores])
        order = np.argsort(last, kind="stable")
        order = order[last[order] >= 0]
        ends = np.minimum(last[order] + 1, self.cycles)
        ends[-1:] = self.cycles
        return order.tolist(), ends

    @cached_property
    def _attributed(self) -> NDArray[np.int64]:
        ends = self._windows[1]
        if len(ends) == 0:
            ends = np.array([self.cycles])
        return attribute(self.table.columns, self.state.log, ends, TIMING.queue_cycles)

    @property
    def _bytes(self) -> NDArray[np.int64]:
        columns = self.table.columns
        moved: NDArray[np.int64] = columns["rows"] * columns["row_bytes"]
        return moved

    @property
    def _is_load(self) -> NDArray[np.bool_]:
        loads: NDArray[np.bool_] = self.table.fields["opcode"] == Opcode.LOAD
        return loads


def _named(counted: NDArray[np.int64]) -> dict[str, dict[str, int]]:
    return {
        module.value: {cause.name.lower(): int(counted[m, cause]) for cause in Cause}
        for m, module in enumerate(MODULES)
    }


def _buffer_accesses(
    table: Table, parameter_reads: NDArray[np.int64]
) -> dict[str, tuple[int, int]]:
    columns, fields = table.columns, table.fields
    opcode, kind = fields["opcode"], fields["memory_type"]
    is_load, is_gemm = opcode == Opcode.LOAD, opcode == Opcode.GEMM
    element = np.maximum(columns["element_bytes"], 1)
    cells = columns["rows"] * (columns["row_bytes"] // element)
    between = np.maximum(columns["rows"] - 1, 0) * columns["pad_row"]
    filled = cells + columns["pad_head"] + between + columns["pad_tail"]
    count = columns["count"]
    multiplied = int(count[is_gemm & (fields["reset"] == 0)].sum())
    results = int(count.sum())
    operands = columns["reads_dst"] + columns["reads_src"]

    def loaded(*types: MemoryType) -> int:
        return int(filled[is_load & np.isin(kind, types)].sum())

    return {
        "uop": (results, loaded(MemoryType.UOP)),
        "inp": (multiplied, loaded(MemoryType.INP)),
        "wgt": (multiplied, loaded(MemoryType.WGT)),
        "acc": (
            int((count * operands).sum() + parameter_reads.sum()),
            results + loaded(MemoryType.ACC, MemoryType.ACC_8BIT),
        ),
        "out": (int(cells[opcode == Opcode.STORE].sum()), results),
    }
