"""What the analysis reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vdla.isa import Instruction, line_of, module_of

__all__ = ["Finding", "Kind", "named"]


class Kind(str, Enum):
    """What is wrong."""

    RACE = "race"
    DEADLOCK = "deadlock"
    UNBALANCED = "unbalanced"
    UNFINISHED = "unfinished"
    UNWRITTEN = "unwritten"
    ILLEGAL = "illegal"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a program.

    Parameters
    ----------
    kind : Kind
        RACE: two modules touch the same place, one writes, nothing orders them. DEADLOCK: a
        module waits for ever. UNBALANCED: a queue's pushes and pops differ in number.
        UNFINISHED: FINISH does not wait for an instruction. UNWRITTEN: a scratchpad entry is
        read that nothing in the program wrote. ILLEGAL: an error stop, or micro-ops that
        cannot be known.
    instructions : tuple of int
        Indices of those concerned, in program order.
    message : str
        With their listing.
    """

    kind: Kind
    instructions: tuple[int, ...]
    message: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}"


def named(index: int, instruction: Instruction) -> str:
    """Return an instruction's index, module and listing."""
    return f"instruction {index} in {module_of(instruction).value} (`{line_of(instruction)}`)"
