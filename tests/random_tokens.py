"""Ordering instructions drawn at random: tokens wherever two of them conflict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vdla.isa import Finish, Instruction, Load, MemoryType, ModuleName, Store, module_of

__all__ = ["Access", "TokenInserter"]

M, C, S = ModuleName.LOAD, ModuleName.COMPUTE, ModuleName.STORE
NEIGHBOURS = {  # (producer, consumer): (push flag, pop flag)
    (M, C): ("push_next", "pop_prev"),
    (C, M): ("push_prev", "pop_next"),
    (C, S): ("push_next", "pop_prev"),
    (S, C): ("push_prev", "pop_next"),
}


@dataclass
class Access:
    """Bytes or entries touched: (space, first, last + 1, written)."""

    space: str
    first: int
    end: int
    write: bool


@dataclass
class Entry:
    instruction: Instruction
    accesses: list[Access] = field(default_factory=list)
    clock: dict[ModuleName, int] = field(default_factory=dict)


class TokenInserter:
    """Emits instructions and orders them; clocks say what is known to be done."""

    def __init__(self, rng: np.random.Generator, depth: int) -> None:
        self.rng = rng
        self.depth = depth
        self.popped: dict[tuple[ModuleName, ModuleName], list[int]] = {e: [] for e in NEIGHBOURS}
        self.entries: list[Entry] = []
        self.known: dict[ModuleName, dict[ModuleName, int]] = {
            m: dict.fromkeys(ModuleName, -1) for m in ModuleName
        }
        self.pushed = dict.fromkeys(NEIGHBOURS, -1)
        self.at: dict[ModuleName, list[int]] = {m: [] for m in ModuleName}

    def emit(self, instruction: Instruction, accesses: list[Access]) -> None:
        module = module_of(instruction)
        needed = self._needed(module, accesses)
        if S in needed and module is M or M in needed and module is S:
            self._relay(module, needed)
        flags = {}
        for producer in ModuleName:
            after = needed.get(producer, -1)
            edge = (producer, module)
            if edge not in NEIGHBOURS:
                continue
            if after <= self.known[module][producer]:
                after = -1
                if self.rng.random() > 0.1:  # now and then a token that nobody needs
                    continue
            if self._push(edge, after):
                flags[NEIGHBOURS[edge][1]] = True
        index = len(self.entries)
        clock = dict(self.known[module])
        clock[module] = index
        self.known[module] = clock
        self.entries.append(Entry(replace(instruction, **flags), accesses, dict(clock)))
        self.at[module].append(index)

    def _needed(self, module: ModuleName, accesses: list[Access]) -> dict[ModuleName, int]:
        """For each other module, the last instruction this one must wait for."""
        needed: dict[ModuleName, int] = {}
        for index, entry in enumerate(self.entries):
            other = module_of(entry.instruction)
            if other is not module and any(
                a.space == b.space and a.first < b.end and b.first < a.end and (a.write or b.write)
                for a in accesses
                for b in entry.accesses
            ):
                needed[other] = index
        return {m: i for m, i in needed.items() if i > self.known[module][m]}

    def _push(self, edge: tuple[ModuleName, ModuleName], after: int) -> bool:
        """Let the consumer, about to be emitted, pop a push from `after` or later."""
        last = max(after, self.pushed[edge] + 1)
        open_ = [i for i in self.at[edge[0]] if i >= last and self._room(edge, i)]
        if open_:
            index = open_[0] if self.rng.random() < 0.5 else int(self.rng.choice(open_))
        elif after >= 0:
            index = self._empty(edge[0])
        else:
            return False
        self.popped[edge].append(len(self.entries))
        entry = self.entries[index]
        entry.instruction = replace(entry.instruction, **{NEIGHBOURS[edge][0]: True})
        self.pushed[edge] = index
        known = self.known[edge[1]]
        for module, done in entry.clock.items():
            known[module] = max(known[module], done)
        return True

    def _room(self, edge: tuple[ModuleName, ModuleName], push: int) -> bool:
        """Whether a token from that push on leaves its queue no fuller than it may be."""
        return sum(pop > push for pop in self.popped[edge]) < self.depth

    def _empty(self, module: ModuleName, **pop: bool) -> int:
        """Append an instruction that only moves tokens; return its index."""
        kind = MemoryType.INP if module is M else MemoryType.UOP
        nothing = {"sram_base": 0, "dram_base": 0, "x_size": 0, **pop}
        instruction = Store(**nothing) if module is S else Load(memory_type=kind, **nothing)
        index = len(self.entries)
        clock = dict(self.known[module])
        clock[module] = index
        self.known[module] = clock
        self.entries.append(Entry(instruction, [], dict(clock)))
        self.at[module].append(index)
        return index

    def _relay(self, module: ModuleName, needed: dict[ModuleName, int]) -> None:
        """Load and store are no neighbours: pass through an empty compute instruction."""
        far = S if module is M else M
        if self.known[C][far] < needed[far]:
            assert self._push((far, C), needed[far])
            needed[C] = self._empty(C, **{NEIGHBOURS[far, C][1]: True})
        else:
            done = (i for i in self.at[C] if self.entries[i].clock[far] >= needed[far])
            needed[C] = max(needed.get(C, -1), next(done))
        needed.pop(far)

    def finish(self) -> None:
        """Append FINISH, behind the last instruction of load and of store."""
        flags = {}
        for module in (M, S):
            last = self.at[module][-1:]
            if last and self.known[C][module] < last[0]:
                assert self._push((module, C), last[0])
                flags[NEIGHBOURS[module, C][1]] = True
        self.entries.append(Entry(Finish(**flags)))
