"""Hypothesis strategies: every legal instruction of a configuration."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.configs import MATRIX
from vdla.config import PRESETS, Config
from vdla.isa import (
    FORMATS,
    TOKEN_FLAGS,
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    ModuleName,
    Opcode,
    Store,
    layout,
)

__all__ = ["CONFIGS", "instructions"]

CONFIGS: tuple[Config, ...] = (*PRESETS.values(), *MATRIX[2:])

_CLASSES = {
    Opcode.LOAD: Load,
    Opcode.STORE: Store,
    Opcode.GEMM: Gemm,
    Opcode.ALU: Alu,
    Opcode.FINISH: Finish,
}
_LOADABLE = [kind for kind in MemoryType if kind is not MemoryType.OUT]


@st.composite
def instructions(draw: st.DrawFn, config: Config) -> Instruction:
    opcode = draw(st.sampled_from(list(FORMATS)))
    values = {}
    for bits in layout(opcode, config):
        low, high = bits.range
        number = draw(st.one_of(st.sampled_from([low, high]), st.integers(low, high)))
        values[bits.name] = bool(number) if bits.width == 1 else number
    del values["opcode"]
    module = ModuleName.COMPUTE
    if opcode is Opcode.LOAD:
        values["memory_type"] = draw(st.sampled_from(_LOADABLE))
        if values["memory_type"] in (MemoryType.INP, MemoryType.WGT):
            module = ModuleName.LOAD
    if opcode is Opcode.STORE:
        values["memory_type"], module = MemoryType.OUT, ModuleName.STORE
    if opcode is Opcode.ALU:
        values["alu_opcode"] = draw(st.sampled_from(list(AluOp)))
    for flag in ("pop_prev", "pop_next", "push_prev", "push_next"):
        values[flag] = values[flag] and flag in TOKEN_FLAGS[module]
    return _CLASSES[opcode](**values)
