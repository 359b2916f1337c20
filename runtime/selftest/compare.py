"""What a run left beside what it must leave: the first difference, and who wrote it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vdla.isa import MemoryType as Kind
from vdla.isa import Opcode, decode_columns, decode_one, element_bytes, line_of
from vdla.program import Program
from vdla.runtime.device import Counters

__all__ = ["ALIKE", "counted_wrong", "memory_wrong"]

ALIKE = (
    ("load", "instructions"),
    ("load", "busy"),
    ("compute", "instructions"),
    ("compute", "busy"),
    ("store", "instructions"),
)
"""What is counted alike whatever the memory is."""


def memory_wrong(
    program: Program, expected: NDArray[np.uint8], found: NDArray[np.uint8]
) -> str | None:
    """Say where memory first differs, and which instruction writes there."""
    wrong = np.flatnonzero(expected != found)
    if len(wrong) == 0:
        return None
    first = int(wrong[0])
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return (
        f"byte {first:#x} must hold {expected[first]:#04x}, not {found[first]:#04x}{more}: "
        f"{_writer(program, first)}"
    )


def counted_wrong(counters: Counters, model: Counters, *, exact: bool) -> str | None:
    """Say what was counted otherwise than by the cycle model; the total where it is `exact`."""
    if exact and counters.cycles != model.cycles:
        return f"it must take {model.cycles} cycles, not {counters.cycles}"
    for module, event in ALIKE if counters.events and model.events else ():
        found, expected = (
            _event(counters.events, module, event),
            _event(model.events, module, event),
        )
        if found != expected:
            return f"{event} of {module} must count {expected}, not {found}"
    return None


def _event(events: Mapping[str, Mapping[str, int]], module: str, event: str) -> int | None:
    return events.get(module, {}).get(event)


def _writer(program: Program, address: int) -> str:
    """Say which STORE writes a byte, the last one where several do."""
    columns = decode_columns(program.instructions, program.config)
    size = element_bytes(Kind.OUT, program.config)
    for index in np.flatnonzero(columns["opcode"] == Opcode.STORE)[::-1].tolist():
        row_bytes = int(columns["x_size"][index]) * size
        for row in range(int(columns["y_size"][index])):
            element = int(columns["dram_base"][index]) + row * int(columns["x_stride"][index])
            if element * size <= address < element * size + row_bytes:
                low, high = (int(word) for word in program.instructions[index])
                line = " ".join(line_of(decode_one(high << 64 | low, program.config)).split())
                return f"instruction {index} ({line}) writes there"
    return "no instruction writes there"
