"""Races by brute force: every access recorded, every pair compared, reachability closed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tests.naive import Naive
from vdla.isa import Alu, Finish, Gemm, Instruction, Load, Store, decode, module_of, pops, pushes
from vdla.program import Program

__all__ = ["conflicts", "mutated", "races", "tokens", "without_pairs"]


class _Log:
    """Places each instruction reads and writes."""

    def __init__(self) -> None:
        self.current = -1
        self.reads: dict[object, set[int]] = defaultdict(set)
        self.writes: dict[object, set[int]] = defaultdict(set)


class _Entries(dict):
    def __init__(self, name: str, log: _Log) -> None:
        super().__init__()
        self.name, self.log = name, log

    def __getitem__(self, key):
        self.log.reads[self.name, key].add(self.log.current)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        self.log.writes[self.name, key].add(self.log.current)
        super().__setitem__(key, value)


class _Bytes(bytearray):
    log: _Log

    def __getitem__(self, key):
        for at in range(key.start, key.stop):
            self.log.reads["dram", at].add(self.log.current)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        for at in range(key.start, key.stop):
            self.log.writes["dram", at].add(self.log.current)
        super().__setitem__(key, value)


def conflicts(program: Program, dram: np.ndarray) -> set[tuple[int, int]]:
    """Return pairs in different modules that touch the same place, one of them writing."""
    log = _Log()
    machine = Naive(program.config, dram)
    machine.dram = _Bytes(machine.dram)
    machine.dram.log = log
    for name in ("inp", "wgt", "acc", "out", "uop"):
        setattr(machine, name, _Entries(name, log))
    steps = {Load: machine.load, Store: machine.store, Gemm: machine.gemm, Alu: machine.alu}
    instructions = decode(program.instructions, program.config)
    for log.current, instruction in enumerate(instructions):
        if not isinstance(instruction, Finish):
            steps[type(instruction)](instruction)
    modules = [module_of(i) for i in instructions]
    return {
        (min(w, other), max(w, other))
        for place, writers in log.writes.items()
        for w in writers
        for other in log.reads[place] | writers
        if modules[w] is not modules[other]
    }


def races(instructions: list[Instruction], pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the pairs that neither program order in a module nor tokens order."""
    count = len(instructions)
    before = np.zeros((count, count), dtype=bool)
    last: dict[object, int] = {}
    pushed: dict[object, list[int]] = defaultdict(list)
    popped: dict[object, list[int]] = defaultdict(list)
    for index, instruction in enumerate(instructions):
        module = module_of(instruction)
        if module in last:
            before[last[module], index] = True
        last[module] = index
        for queue in pushes(instruction):
            pushed[queue].append(index)
        for queue in pops(instruction):
            popped[queue].append(index)
    for queue, sources in pushed.items():
        for source, target in zip(sources, popped[queue], strict=False):
            before[source, target] = True
    for via in range(count):
        before |= np.outer(before[:, via], before[via])
    return {(a, b) for a, b in pairs if not before[a, b] and not before[b, a]}


def tokens(instructions: list[Instruction]) -> Iterator[tuple[int, str]]:
    """Yield every dependence flag that is set."""
    for index, instruction in enumerate(instructions):
        for flag in ("pop_prev", "pop_next", "push_prev", "push_next"):
            if getattr(instruction, flag):
                yield index, flag


def mutated(instructions: list[Instruction], *flags: tuple[int, str]) -> list[Instruction]:
    """Return the instructions with some flags cleared."""
    changed = list(instructions)
    for index, flag in flags:
        changed[index] = replace(changed[index], **{flag: False})
    return changed


def without_pairs(instructions: list[Instruction]) -> Iterator[list[Instruction]]:
    """Yield the program without the k-th push and the k-th pop of a queue, for each."""
    pushed: dict[object, list[tuple[int, str]]] = defaultdict(list)
    popped: dict[object, list[tuple[int, str]]] = defaultdict(list)
    for index, flag in tokens(instructions):
        only = mutated([instructions[index]], *((0, f) for f in _FLAGS if f != flag))[0]
        for queue in pushes(only):
            pushed[queue].append((index, flag))
        for queue in pops(only):
            popped[queue].append((index, flag))
    for queue, sources in pushed.items():
        for push, pop in zip(sources, popped[queue], strict=True):
            yield mutated(instructions, push, pop)


_FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
