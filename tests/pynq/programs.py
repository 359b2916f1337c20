"""Small programs for TINY, and what they leave in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.config import TINY
from vdla.isa import Alu, AluOp, Finish, Instruction, Load, MemoryType, Store, encode_uops
from vdla.program import Program
from vdla.runtime.devices.board import PynqDevice

__all__ = ["ENDLESS", "PLUS_FIVE", "SLOW", "UOP", "VALUES", "prepare", "run"]

UOP = encode_uops([0], [0], [0], TINY).view(np.uint8)
VALUES = np.array([1, 2, 3, 100], np.uint8)

_BEFORE: list[Instruction] = [
    Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=64, x_size=1),
    Load(memory_type=MemoryType.ACC_8BIT, sram_base=0, dram_base=0, x_size=1),
]
_AFTER: list[Instruction] = [
    Alu(uop_begin=0, uop_end=1, alu_opcode=AluOp.ADD, use_imm=True, imm=5, push_next=True),
    Store(sram_base=0, dram_base=1, x_size=1, pop_prev=True, push_prev=True),
    Finish(pop_next=True),
]
_KEEP: dict[str, Any] = {
    "alu_opcode": AluOp.MAX,
    "use_imm": True,
    "imm": 0,
    "uop_begin": 0,
    "uop_end": 1,
}


def _program(*instructions: Instruction) -> Program:
    every = [*_BEFORE, *instructions, *_AFTER]
    return Program.from_instructions(every, TINY, labels=["plus five"], layer_of=[0] * len(every))


PLUS_FIVE = _program()
"""acc[0] = the vector at 0; acc[0] += 5; stored at 1, behind it."""
SLOW = _program(Alu(iter_out=1000, iter_in=400, **_KEEP))
"""The same after some 400,000 cycles."""
ENDLESS = _program(Alu(pop_prev=True, **_KEEP))
"""An operation that waits for a token which nobody sends."""


def prepare(device: PynqDevice) -> int:
    """Put what the programs read into memory; return their base."""
    base = device.allocate(1024)
    device.write(base, VALUES)
    device.write(base + 256, UOP)
    return base


def run(device: PynqDevice, base: int, program: Program = PLUS_FIVE) -> None:
    """Run a program and see that it did what it should."""
    device.write(base + 4, np.zeros(4, np.uint8))
    device.launch(program, base)
    device.wait()
    np.testing.assert_array_equal(device.read(base + 4, 4), VALUES[None] + 5)
