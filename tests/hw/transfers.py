"""Programs that move blocks of every length at every alignment, and over ends of pages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.builder import Case
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
    element_bytes,
    encode_uops,
)
from vdla.program import Program

__all__ = ["GUARD", "LOADED", "PAGE", "transfers"]

PAGE = 4096
GUARD = 0x5A
LOADED = (
    MemoryType.ACC_8BIT,
    MemoryType.ACC,
    MemoryType.INP,
    MemoryType.WGT,
    MemoryType.UOP,
)
_SOURCES = 4
"""Pages that blocks are read from; after them each block written has a page's end of its own."""

_LONGEST_BURST = TINY.axi_burst_beats * TINY.axi_bytes
_OUT = element_bytes(MemoryType.OUT, TINY)


def _lengths(size: int) -> list[int]:
    """Lengths, in elements, from one to past a burst, and about two."""
    burst = _LONGEST_BURST // size
    return [*range(1, burst + 3), 2 * burst - 1, 2 * burst, 2 * burst + 1]


def transfers(kind: MemoryType) -> Case:
    """Load blocks of a type, and store what they make of OUT, each with guards around it.

    Of each length a block starts on a beat, one within a beat where elements are narrower, and one
    lies across a page's end; so do the blocks that are stored, in another order.
    """
    size, rng = element_bytes(kind, TINY), np.random.default_rng(int(kind))
    lengths, page = _lengths(size), PAGE // size
    items = []
    for n in lengths:
        inside = int(rng.integers(0, n)) + 1
        starts = (2 * page, 2 * page + 1, page - inside)
        ends = (2, 1, int(rng.integers(0, n)) + 1)
        items += list(zip((n, n, n), starts, rng.permutation(ends).tolist(), strict=True))
    image = np.full((_SOURCES + len(items) + 2) * PAGE, GUARD, np.uint8)
    image[: _SOURCES * PAGE] = rng.integers(0, 256, _SOURCES * PAGE)
    instructions = _prologue(kind, image, max(lengths), rng)
    for number, (n, start, before) in enumerate(items):
        end = (_SOURCES + number + 1) * PAGE // _OUT
        instructions += _item(kind, n, start, end - before, number)
    if kind in (MemoryType.INP, MemoryType.WGT):  # no load takes the last product's token
        instructions[-2] = replace(instructions[-2], push_prev=False)
    instructions.append(Finish(pop_next=True))
    return Case(kind.name, Program.from_instructions(instructions, TINY), image, ())


def _prologue(
    kind: MemoryType, image: np.ndarray, most: int, rng: np.random.Generator
) -> list[Instruction]:
    """Give every scratchpad entry that is used a value; micro-op 0 names the first of each."""
    at = 3 * PAGE  # the last page of sources: nothing else lies there
    words = encode_uops(np.zeros(1, int), np.zeros(1, int), np.zeros(1, int), TINY)
    image[at : at + 4] = words.view(np.uint8)
    if kind is MemoryType.UOP:  # random bits would name entries past the buffers
        columns = [rng.integers(0, most, 3 * PAGE // 4) for _ in range(2)]
        uops = encode_uops(*columns, np.zeros(3 * PAGE // 4, int), TINY)
        image[: 3 * PAGE] = uops.view(np.uint8)
    acc, block = (3 * PAGE + 1024) // 16, (3 * PAGE + 2048) // 4
    return [
        Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=at // 4, x_size=1),
        Gemm(uop_begin=0, uop_end=1, iter_in=most, dst_factor_in=1, reset=True),
        Load(memory_type=MemoryType.ACC, sram_base=0, dram_base=acc, x_size=most),
        Load(memory_type=MemoryType.INP, sram_base=0, dram_base=block, x_size=1),
        Load(memory_type=MemoryType.WGT, sram_base=0, dram_base=block // 4, x_size=1),
    ]


def _item(kind: MemoryType, n: int, start: int, target: int, number: int) -> list[Instruction]:
    """Load n elements, compute OUT's first n entries, store them; each waits for the one before."""
    later = number > 0
    loops = {"uop_begin": 0, "uop_end": 1, "iter_in": n, "dst_factor_in": 1}
    load = Load(memory_type=kind, sram_base=0, dram_base=start, x_size=n)
    store = Store(sram_base=0, dram_base=target, x_size=n, pop_prev=True, push_prev=True)
    tokens = {"pop_next": later, "push_next": True}
    if kind in (MemoryType.INP, MemoryType.WGT):
        factor = "src_factor_in" if kind is MemoryType.INP else "wgt_factor_in"
        product = Gemm(**loops, **{factor: 1}, overwrite=True, pop_prev=True, **tokens)
        # What the product reads is free again for the next item's load.
        return [
            replace(load, pop_next=later, push_next=True),
            replace(product, push_prev=True),
            store,
        ]
    if kind is MemoryType.UOP:
        added = Alu(alu_opcode=AluOp.ADD, uop_begin=1, uop_end=1 + n, **tokens)
        return [replace(load, sram_base=1), added, store]
    amount = 24 if kind is MemoryType.ACC else 0  # into OUT's range
    shown = Alu(alu_opcode=AluOp.SHR, use_imm=True, imm=amount, **loops, **tokens)
    return [load, shown, store]
