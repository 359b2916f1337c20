"""Every error stop: programs that must end in one, and where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.builder import Builder
from vdla.config import TINY
from vdla.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Store,
    encode,
    layout,
)
from vdla.program import Program

__all__ = ["BAD_ENCODINGS", "OUT_OF_RANGE", "Illegal"]

_UOP, _WGT, _INP, _ACC = MemoryType.UOP, MemoryType.WGT, MemoryType.INP, MemoryType.ACC
_ACC8 = MemoryType.ACC_8BIT


@dataclass(frozen=True)
class Illegal:
    """A program on TINY that stops with an error.

    Parameters
    ----------
    program : Program
    dram : ndarray of uint8, shape (bytes,)
    index : int
        The instruction at fault.
    message : str
        Part of what the models say.
    """

    program: Program
    dram: np.ndarray
    index: int
    message: str


def _patched(instruction: Instruction, message: str, **fields: int) -> Illegal:
    """A NOP, then an instruction with bits that no instruction class would encode."""
    nop = Load(memory_type=_UOP, sram_base=0, dram_base=0, x_size=0)
    words = encode([nop, instruction, Finish()], TINY)
    for bits in layout(instruction.opcode, TINY):
        if bits.name in fields:
            half, shift = divmod(bits.lsb, 64)
            word = int(words[1, half]) & ~(((1 << bits.width) - 1) << shift)
            words[1, half] = word | fields[bits.name] << shift
    return Illegal(Program(TINY, words), np.zeros(4096, np.uint8), 1, message)


_LOAD = Load(memory_type=_INP, sram_base=0, dram_base=0, x_size=1)
_STORE = Store(sram_base=0, dram_base=0, x_size=1)
_ALU = Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=1)

BAD_ENCODINGS: dict[str, Illegal] = {
    **{
        f"opcode_{code}": _patched(
            _LOAD, f"An opcode must be one of 0..4, not {code}.", opcode=code
        )
        for code in (5, 6, 7)
    },
    **{
        f"{i.opcode.name.lower()}_memory_type_{code}": _patched(
            i, f"A memory type must be one of 0..5, not {code}.", memory_type=code
        )
        for i in (_LOAD, _STORE)
        for code in (6, 7)
    },
    **{
        f"alu_opcode_{code}": _patched(
            _ALU, f"An ALU opcode must be one of 0..5, not {code}.", alu_opcode=code
        )
        for code in (6, 7)
    },
    **{
        f"store_of_{kind.name.lower()}": _patched(
            _STORE, f"STORE must read OUT (4), not {kind.name} ({kind.value}).", memory_type=kind
        )
        for kind in MemoryType
        if kind is not MemoryType.OUT
    },
    "load_of_out": _patched(
        _LOAD, "LOAD must fill UOP, WGT, INP or ACC, not OUT (4).", memory_type=MemoryType.OUT
    ),
    **{
        f"{module}_{flag}": _patched(
            i, f"An instruction of the {module} module must not set {flag}", **{flag: 1}
        )
        for module, i, flags in (
            ("load", _LOAD, ("pop_prev", "push_prev")),
            ("store", _STORE, ("pop_next", "push_next")),
        )
        for flag in flags
    },
}
"""Bits that encode no instruction."""


def _running(
    instruction: Instruction,
    message: str,
    uops: tuple[tuple[int, int, int], ...] = ((0, 0, 0), (510, 0, 0), (0, 510, 0), (0, 0, 254)),
) -> Illegal:
    """Micro-ops loaded from their buffer's start, then the instruction."""
    b = Builder(TINY)
    b.uops(uops)
    b.add(instruction)
    b.add(Finish())
    case = b.case("illegal")
    dram = np.concatenate([case.dram, np.zeros(4096 - len(case.dram), np.uint8)])
    return Illegal(case.program, dram, 1, message)


def _loop(uop: int, iterations: int, factor: str) -> dict[str, int]:
    return {"uop_begin": uop, "uop_end": uop + 1, "iter_in": iterations, f"{factor}_factor_in": 1}


OUT_OF_RANGE: dict[str, Illegal] = {
    **{
        f"load_{kind.name.lower()}": _running(
            Load(memory_type=kind, sram_base=depth - 2, dram_base=0, x_size=2, x_pad_1=1),
            f"{kind.name} entries must lie below {depth} on tiny, not reach {depth - 2}..{depth}.",
        )
        for kind, depth in ((_UOP, 512), (_WGT, 256), (_INP, 512), (_ACC, 512), (_ACC8, 512))
    },
    "store": _running(
        Store(sram_base=511, dram_base=0, x_size=2),
        "OUT entries must lie below 512 on tiny, not reach 511..512.",
    ),
    "load_memory": _running(
        Load(memory_type=_INP, sram_base=0, dram_base=1000, y_size=2, x_size=1, x_stride=24),
        "Memory addresses must lie in 0..0xfff, the image given, not 0xfa0..0x1003.",
    ),
    "store_memory": _running(
        Store(sram_base=0, dram_base=1023, x_size=2),
        "Memory addresses must lie in 0..0xfff, the image given, not 0xffc..0x1003.",
    ),
    "gemm_uop": _running(
        Gemm(uop_begin=511, uop_end=513, reset=True),
        "Micro-ops must lie below 512 on tiny, not reach 512.",
    ),
    "gemm_dst": _running(
        Gemm(**_loop(1, 3, "dst"), reset=True), "ACC indices must lie below 512, not reach 512."
    ),
    "gemm_src": _running(
        Gemm(**_loop(2, 3, "src")), "INP indices must lie below 512, not reach 512."
    ),
    "gemm_wgt": _running(
        Gemm(**_loop(3, 3, "wgt")), "WGT indices must lie below 256, not reach 256."
    ),
    "alu_uop": _running(
        Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=1023, use_imm=True),
        "Micro-ops must lie below 512 on tiny, not reach 1022.",
    ),
    "alu_dst": _running(
        Alu(alu_opcode=AluOp.ADD, use_imm=True, **_loop(1, 3, "dst")),
        "ACC indices must lie below 512, not reach 512.",
    ),
    "alu_src": _running(
        Alu(alu_opcode=AluOp.ADD, **_loop(2, 3, "src")),
        "ACC indices must lie below 512, not reach 512.",
    ),
    "rq_parameters": _running(
        Alu(alu_opcode=AluOp.RQ, uop_begin=2, uop_end=3),
        "ACC indices must lie below 512, not reach 512.",
    ),
}
"""Indices past a buffer and addresses outside memory."""
