"""What a program's instructions say in bulk: who executes each, how long it may take at most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import MemoryType, ModuleName, Opcode, decode_columns, element_bytes
from vdla.program import Program

__all__ = ["MODULES", "bytes_moved", "modules_of", "most_cycles"]

MODULES = (ModuleName.LOAD, ModuleName.COMPUTE, ModuleName.STORE)

_SLOTS = 16
"""More than a micro-op ever takes: an operand in the slow stages, RQ's parameters, itself."""
_OVERHEAD_CYCLES = 100
"""More than an instruction takes beyond its work and the memory's latency."""
_SLACK = 8
"""How much slower than the reference memory a real one may be."""
_MOST = 1 << 46


def modules_of(program: Program) -> NDArray[np.int64]:
    """Return the index in `MODULES` of the module that executes each instruction, shape (n,)."""
    columns = decode_columns(program.instructions, program.config)
    opcode, kind = columns["opcode"], columns["memory_type"]
    loads = (opcode == Opcode.LOAD) & np.isin(kind, (MemoryType.INP, MemoryType.WGT))
    module = np.full(len(program), MODULES.index(ModuleName.COMPUTE))
    module[loads] = MODULES.index(ModuleName.LOAD)
    module[opcode == Opcode.STORE] = MODULES.index(ModuleName.STORE)
    return module


def _element_bytes(columns: dict[str, NDArray[np.int64]], config: Config) -> NDArray[np.int64]:
    sizes = np.ones(8, np.int64)  # memory types are 3 bits
    for kind in MemoryType:
        sizes[kind] = element_bytes(kind, config)
    return sizes[columns["memory_type"]]


def bytes_moved(program: Program) -> NDArray[np.int64]:
    """Return the bytes that each LOAD and STORE moves, 0 for others, shape (n,)."""
    columns = decode_columns(program.instructions, program.config)
    moved: NDArray[np.int64] = columns["y_size"] * columns["x_size"]
    return moved * _element_bytes(columns, program.config)


def most_cycles(program: Program) -> int:
    """Return a limit that only a program that does not end exceeds."""
    config = program.config
    columns = decode_columns(program.instructions, config)
    micro_ops = np.maximum(columns["uop_end"] - columns["uop_begin"], 0)
    issued = columns["iter_out"] * columns["iter_in"] * micro_ops * _SLOTS
    rows = columns["y_size"] + columns["y_pad_0"] + columns["y_pad_1"]
    width = columns["x_size"] + columns["x_pad_0"] + columns["x_pad_1"]
    beats = -(-_element_bytes(columns, config) // config.axi_bytes)
    burst = config.axi_burst_beats
    bursts = columns["y_size"] * (columns["x_size"] * beats // burst + 3)
    earned, cost = config.dram_pace
    beats = beats * -(-cost // earned)
    moved = rows * width * beats + bursts * (config.dram_latency_cycles + burst)
    overhead = (_OVERHEAD_CYCLES + config.dram_latency_cycles) * -(-cost // earned)
    work = issued.astype(float) + moved + overhead  # float: 2^14 three times, and many of them
    return int(min(_SLACK * float(work.sum()), _MOST))
