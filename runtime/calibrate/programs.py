"""Programs whose cycles say what a memory is like: chains for latency, long transfers for pace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from vdla.config import Config
from vdla.isa import Alu, AluOp, Finish, Instruction, Load, MemoryType, Store, element_bytes
from vdla.program import Program

__all__ = ["Benchmark", "benchmarks"]

_ROUNDS = 24
_LONG_BYTES = 16 << 10
"""Of a long transfer: what is at its ends is lost in it."""


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A program to time; what it moves does not matter, and it reads no micro-ops.

    Attributes
    ----------
    name : str
    program : Program
    nbytes : int
        Memory that it needs, from its address 0 on.
    held_out : bool
        Whether it takes no part in the fit, and shows how good that is.
    """

    name: str
    program: Program
    nbytes: int
    held_out: bool = False


def benchmarks(config: Config) -> tuple[Benchmark, ...]:
    """Return the programs, first those that tell latency, then those that tell pace."""
    draft = _Draft(config)
    return (
        draft.made("chain of loads", draft.load_chain(1)),
        draft.made("chain of bursts", draft.load_chain(_burst_entries(config))),
        draft.made("chain of stores", draft.store_chain(1)),
        draft.made("instructions", [_nothing()] * 300),
        draft.made("long loads", draft.long_loads((MemoryType.WGT, MemoryType.INP))),
        draft.made("two readers", draft.long_loads((MemoryType.INP, MemoryType.ACC))),
        draft.made("long stores", draft.long_stores()),
        draft.made("short rows", draft.short_rows(), held_out=True),
        draft.made("loads beside stores", draft.both_ways(), held_out=True),
    )


def _burst_entries(config: Config) -> int:
    """Return the INP entries of a whole burst."""
    return max(1, config.axi_burst_beats * config.axi_bytes // config.inp_elem_bytes)


def _nothing(**tokens: bool) -> Alu:
    return Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=0, **tokens)


class _Draft:
    def __init__(self, config: Config) -> None:
        self.config = config

    def made(
        self, name: str, instructions: Sequence[Instruction], *, held_out: bool = False
    ) -> Benchmark:
        program = Program.from_instructions([*instructions, Finish()], self.config)
        nbytes = max((self._end(i) for i in instructions), default=0)
        return Benchmark(name, program, max(nbytes, self.config.axi_bytes), held_out)

    def load_chain(self, entries: int) -> list[Instruction]:
        """Loads, each of which waits for the one before."""
        chain: list[Instruction] = []
        for k in range(_ROUNDS):
            chain.append(self._load(MemoryType.INP, entries, pop_next=k > 0, push_next=True))
            chain.append(_nothing(pop_prev=True, push_prev=k + 1 < _ROUNDS))
        return chain

    def store_chain(self, entries: int) -> list[Instruction]:
        chain: list[Instruction] = []
        for k in range(_ROUNDS):
            chain.append(_nothing(push_next=True, pop_next=k > 0))
            chain.append(self._store(entries, pop_prev=True, push_prev=True))
        return [*chain, _nothing(pop_next=True)]

    def long_loads(self, kinds: Sequence[MemoryType]) -> list[Instruction]:
        """Loads of some types in turn, of whole buffers where they are small."""
        rounds = [self._load(kind, self._long(kind)) for kind in kinds for _ in range(3)]
        loads = [load for load in rounds if load.memory_type is not MemoryType.ACC]
        accs = [load for load in rounds if load.memory_type is MemoryType.ACC]
        last = replace(loads[-1], push_next=True)
        return [*loads[:-1], last, *accs, _nothing(pop_prev=True)]

    def long_stores(self) -> list[Instruction]:
        stores = [self._store(self._long(MemoryType.OUT)) for _ in range(3)]
        last = replace(stores[-1], push_prev=True)
        return [*stores[:-1], last, _nothing(pop_next=True)]

    def short_rows(self) -> list[Instruction]:
        rows: dict[str, Any] = {"y_size": 96, "x_size": 1, "x_stride": 3}
        load = Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, **rows, push_next=True)
        return [load, _nothing(pop_prev=True)]

    def both_ways(self) -> list[Instruction]:
        """Loads, and stores beside them."""
        return [
            *self.long_stores()[:-1],
            *self.long_loads((MemoryType.WGT,)),
            _nothing(pop_next=True),
        ]

    def _long(self, kind: MemoryType) -> int:
        """Return the entries of a long transfer."""
        config = self.config
        depth = {
            MemoryType.INP: config.inp_depth,
            MemoryType.WGT: config.wgt_depth,
        }.get(kind, config.acc_depth)
        return max(1, min(depth // 2, _LONG_BYTES // element_bytes(kind, config)))

    def _load(self, kind: MemoryType, entries: int, **tokens: bool) -> Load:
        entries = min(entries, self._long(kind))
        return Load(memory_type=kind, sram_base=0, dram_base=0, x_size=entries, **tokens)

    def _store(self, entries: int, **tokens: Any) -> Store:
        return Store(sram_base=0, dram_base=0, x_size=entries, **tokens)

    def _end(self, i: Instruction) -> int:
        if not isinstance(i, (Load, Store)):
            return 0
        last = i.dram_base + (i.y_size - 1) * i.x_stride + i.x_size
        return last * element_bytes(i.memory_type, self.config)
