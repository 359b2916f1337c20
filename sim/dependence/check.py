"""The analysis: happens-before between the three modules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.errors import ProgramError
from vdla.isa import (
    Finish,
    Instruction,
    Load,
    MemoryType,
    ModuleName,
    module_of,
    sram_depth,
)
from vdla.program import Program
from vdla.sim.functional import instructions_of
from vdla.sim.order import Order, describe_leftover, order_of

from .clocks import MODULES, clocks_of
from .findings import Finding, Kind, named
from .footprint import Access, Footprints
from .places import Places

__all__ = ["check"]

_LOAD, _COMPUTE, _STORE = (MODULES.index(module) for module in ModuleName)
_SHARED = {
    MemoryType.UOP: (_COMPUTE, (_COMPUTE,)),
    MemoryType.ACC: (_COMPUTE, (_COMPUTE,)),
    MemoryType.INP: (_LOAD, (_COMPUTE,)),
    MemoryType.WGT: (_LOAD, (_COMPUTE,)),
    MemoryType.OUT: (_COMPUTE, (_STORE,)),
}
"""Writer and readers of each scratchpad."""


def check(program: Program, dram: NDArray[np.uint8], *, base: int = 0) -> list[Finding]:
    """Report what a program's tokens, queues and addresses leave undefined.

    No timing enters: a race is reported where no path of tokens orders two accesses, however
    unlikely a clash is on some machine. Of one module's accesses to a place, only the last
    before the clash is named.

    Parameters
    ----------
    program : Program
    dram : ndarray of uint8, shape (bytes,) or (images, bytes)
        The memory at the start. Only micro-ops are read from it.
    base : int
        Address of element 0 of every memory type, in bytes.

    Returns
    -------
    list of Finding
        Empty for a correct program.
    """
    try:
        instructions = instructions_of(program)
    except ProgramError as error:
        return [Finding(Kind.ILLEGAL, (), str(error))]
    order = order_of(instructions, program.config)
    analysis = _Analysis(instructions, order, Footprints(program, instructions, dram, base))
    for index in order.sequence:
        analysis.visit(index)
    return [*_token_findings(instructions, order), *analysis.findings]


def _token_findings(instructions: list[Instruction], order: Order) -> list[Finding]:
    if order.waits:
        return [Finding(Kind.DEADLOCK, (wait.index,), wait.reason) for wait in order.waits]
    return [
        Finding(Kind.UNBALANCED, tuple(left), describe_leftover(queue, left, instructions))
        for queue, left in order.leftover.items()
    ]


class _Analysis:
    """Visits instructions in an order that the tokens allow, and collects findings."""

    def __init__(
        self, instructions: list[Instruction], order: Order, footprints: Footprints
    ) -> None:
        self.instructions = instructions
        self.footprints = footprints
        self.clocks = clocks_of(instructions, order)
        self.findings: list[Finding] = []
        config = footprints.config
        self.places: dict[MemoryType | None, Places] = {
            kind: Places(sram_depth(kind, config), writer, readers)
            for kind, (writer, readers) in _SHARED.items()
        }
        self.memory = Places(footprints.segments.count, _STORE, (_LOAD, _COMPUTE))
        self.places[None] = self.memory
        self.last_effect = [-1] * len(MODULES)

    def visit(self, index: int) -> None:
        """Note what an instruction touches."""
        instruction = self.instructions[index]
        try:
            for access in self.footprints.of(index, instruction):
                self._access(index, instruction, access)
        except ProgramError as error:
            self._add(Kind.ILLEGAL, (index,), f"{named(index, instruction)}: {error}")
        if isinstance(instruction, Finish):
            self._finish(index)

    def _access(self, index: int, instruction: Instruction, access: Access) -> None:
        module = MODULES.index(module_of(instruction))
        self.last_effect[module] = index
        places = self.places[access.where]
        if not access.write:
            self._require_written(index, instruction, access)
        clashes = places.access(index, module, self.clocks[index], access.touched, access.write)
        for other, place in clashes:
            self._race(other, index, access, place)

    def _require_written(self, index: int, instruction: Instruction, access: Access) -> None:
        """A scratchpad must be written before it is read, micro-ops in memory must not be."""
        if access.where is not None:
            entry = self.places[access.where].unwritten(access.touched)
            if entry is not None:
                self._add(
                    Kind.UNWRITTEN,
                    (index,),
                    f"{named(index, instruction)} reads {access.where.name} entry {entry}, which "
                    f"no instruction before it writes.",
                )
        elif isinstance(instruction, Load) and instruction.memory_type is MemoryType.UOP:
            store = int(self.memory.written[access.touched].max(initial=-1))
            if store >= 0:
                self._add(
                    Kind.ILLEGAL,
                    (store, index),
                    f"{named(index, instruction)} loads micro-ops that "
                    f"{named(store, self.instructions[store])} writes; they must stand in memory "
                    f"from the start to be known.",
                )

    def _race(self, other: int, index: int, access: Access, place: int) -> None:
        where = "memory" if access.where is None else f"{access.where.name} entry {place}"
        does, did = ("writes", "reads") if access.write else ("reads", "writes")
        self._add(
            Kind.RACE,
            (min(other, index), max(other, index)),
            f"{self._named(other)} {did} {where}, {self._named(index)} {does} it, "
            f"and no tokens lead from one to the other.",
        )

    def _finish(self, index: int) -> None:
        for at, last in enumerate(self.last_effect):
            if last > self.clocks[index][at] and at != _COMPUTE:
                self._add(
                    Kind.UNFINISHED,
                    (last, index),
                    f"{self._named(index)} does not wait for {self._named(last)}.",
                )

    def _named(self, index: int) -> str:
        return named(index, self.instructions[index])

    def _add(self, kind: Kind, indices: tuple[int, ...], message: str) -> None:
        self.findings.append(Finding(kind, indices, message))
