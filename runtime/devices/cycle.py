"""The cycle model as a device: results and exact timing."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from vdla.config import PYNQ_Z1, Config
from vdla.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MemoryType, Store
from vdla.program import Program
from vdla.runtime.device import Counters, LayerCounters
from vdla.sim import cycle

from .simulated import SimulatedDevice

__all__ = ["CycleDevice"]


class CycleDevice(SimulatedDevice):
    """Times a program once and computes the results of each image."""

    def __init__(self, config: Config, images: int = 1) -> None:
        super().__init__(config, images)
        _load_compiled_code()

    def _simulate(self, program: Program, base: int) -> Counters:
        if program.config != self.config:  # the memory is the device's, whoever compiled for which
            program = replace(program, config=self.config)
        result = cycle.run(program, self._memory, base=base)
        layers = {
            layer.name: LayerCounters(
                layer.cycles,
                layer.bytes_read + layer.bytes_written,
                {k: n for k, n in layer.waiting["compute"].items() if k != "busy"},
            )
            for layer in result.layers
        }
        events = {
            module: {**causes, "instructions": result.instructions[module]}
            for module, causes in result.counters.items()
        }
        return Counters(result.cycles, layers, events=events)


@lru_cache(maxsize=1)
def _load_compiled_code() -> None:
    """Run one instruction of each kind, so that no measurement counts the just-in-time compiler.

    There are no tokens: what the program computes does not matter.
    """
    kinds = (MemoryType.UOP, MemoryType.INP, MemoryType.WGT, MemoryType.ACC)
    instructions: list[Instruction] = [
        Load(memory_type=kind, sram_base=0, dram_base=0, x_size=1) for kind in kinds
    ]
    instructions += [
        Gemm(uop_begin=0, uop_end=1, reset=True),
        Gemm(uop_begin=0, uop_end=1),
        Alu(uop_begin=0, uop_end=1, alu_opcode=AluOp.ADD),
        Alu(uop_begin=0, uop_end=1, alu_opcode=AluOp.RQ),
        Store(sram_base=0, dram_base=0, x_size=1),
        Finish(),
    ]
    program = Program.from_instructions(instructions, PYNQ_Z1)
    _ = cycle.run(program, np.zeros((1, 4096), np.uint8)).layers
