"""How much of each scratchpad holds what is still to be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vdla.isa import MemoryType, decode, sram_depth
from vdla.sim.dependence.footprint import Footprints

from .timeline import Part, Timeline

__all__ = ["BUFFERS", "buffer_levels"]

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

BUFFERS = (MemoryType.UOP, MemoryType.INP, MemoryType.WGT, MemoryType.ACC, MemoryType.OUT)


def buffer_levels(timeline: Timeline) -> dict[str, tuple[Ints, Ints]]:
    """Return when the number of live entries of each scratchpad changes, and the number then.

    An entry is live from the cycle in which the instruction that writes it begins to the finish of
    the last one that reads that value; one that only changes a value (an accumulation) prolongs its
    life. A value that nothing reads is not live.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    dict of str to (cycles, levels)
        By the lower-case name of the buffer; int64 arrays, cycles ascending.
    """
    changes: dict[str, list[tuple[Ints, Ints]]] = {kind.name.lower(): [] for kind in BUFFERS}
    for part in timeline.parts:
        for name, begins, ends in _lives(timeline, part):
            cycles = np.concatenate([begins, ends]) + part.begin
            steps = np.repeat([1, -1], [len(begins), len(ends)])
            changes[name].append((cycles, steps))
    return {name: _summed(pairs) for name, pairs in changes.items()}


def _summed(pairs: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    cycles = np.concatenate([c for c, _ in pairs]) if pairs else np.zeros(0, np.int64)
    steps = np.concatenate([s for _, s in pairs]) if pairs else np.zeros(0, np.int64)
    at, place = np.unique(cycles, return_inverse=True)
    moved = np.bincount(place, weights=steps, minlength=len(at)).astype(np.int64)
    return at, np.cumsum(moved)


class _Lives:
    """The entries of one scratchpad: since when each holds its value, and until when it is read."""

    def __init__(self, depth: int) -> None:
        self.since = np.full(depth, -1, np.int64)
        self.until = np.full(depth, -1, np.int64)
        self.begins: list[Ints] = []
        self.ends: list[Ints] = []

    def read(self, entries: Mask, finish: int) -> None:
        self.until[entries] = finish

    def write(self, entries: Mask, begin: int) -> None:
        self.end(entries)
        self.since[entries] = begin
        self.until[entries] = -1

    def end(self, entries: Mask) -> None:
        lived = entries & (self.since >= 0) & (self.until > self.since)
        if lived.any():
            self.begins.append(self.since[lived])
            self.ends.append(self.until[lived])


def _lives(timeline: Timeline, part: Part) -> Iterator[tuple[str, Ints, Ints]]:
    """Yield each buffer's name, and when values that are read begin and end to be held."""
    result, config = part.result, timeline.config
    program = timeline.module.programs[part.index]
    instructions = decode(program.instructions[: program.finish + 1], config)
    footprints = Footprints(program, instructions, timeline.memory(), 0)
    lives = {kind: _Lives(sram_depth(kind, config)) for kind in BUFFERS}
    begins = result.state.log["first_write"].tolist()
    finishes = (np.minimum(result.finish, result.cycles - 1) + 1).tolist()
    for index, instruction in enumerate(instructions):
        reads: dict[MemoryType, Mask] = {}
        writes: dict[MemoryType, Mask] = {}
        for where, touched, write in footprints.of(index, instruction):
            if where is not None:
                masks = writes if write else reads
                if where not in masks:
                    masks[where] = np.zeros(len(lives[where].since), bool)
                masks[where][touched] = True
        for kind, entries in reads.items():
            lives[kind].read(entries, finishes[index])
        for kind, entries in writes.items():
            if kind is MemoryType.ACC and kind in reads:
                entries = entries & ~reads[kind]  # what is read and written lives on
            lives[kind].write(entries, begins[index])
    nothing = np.zeros(0, np.int64)
    for kind, life in lives.items():
        life.end(np.ones(len(life.since), bool))
        begun, ended = (np.concatenate([nothing, *edges]) for edges in (life.begins, life.ends))
        yield kind.name.lower(), begun, ended
