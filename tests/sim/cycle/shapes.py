"""What one instruction does, spelled out: bursts beat by beat, elements and slots one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.config import Config
from vdla.isa import Alu, AluOp, Gemm, Instruction, Load, Store, decode_uops
from vdla.timing import TIMING

__all__ = ["Slot", "bursts", "cells", "cells_of", "rows", "slots_of", "writes"]


def rows(i: Load | Store, size: int) -> list[tuple[int, int]]:
    """Byte address and bytes of each row."""
    if i.x_size == 0:
        return []
    return [((i.dram_base + y * i.x_stride) * size, i.x_size * size) for y in range(i.y_size)]


def bursts(spans: list[tuple[int, int]], beat: int, longest: int) -> list[int]:
    """Beats of each burst: walk over beats, and cut where a rule says so."""
    out: list[int] = []
    for address, count in spans:
        run = 0
        for at in range(address // beat, -(-(address + count) // beat)):
            if run and (run == longest or at * beat % 4096 == 0):
                out.append(run)
                run = 0
            run += 1
        out.append(run)
    return out


def cells(spans: list[tuple[int, int]], size: int, beat: int) -> Iterator[list[tuple[str, bool]]]:
    """For each row, what the write stage does: ('data', whether a beat leaves)."""
    for address, count in spans:
        if size >= beat:
            yield [("data", True)] * -(-(address % beat + count) // beat)
            continue
        elements = range(address, address + count, size)
        beats = [a // beat for a in elements]
        yield [("data", k + 1 == len(beats) or beats[k + 1] != b) for k, b in enumerate(beats)]


def cells_of(lengths: list[int], spelled: list[tuple[str, bool]]) -> list[list[bool]]:
    """For each burst of a store, its cells: whether a beat leaves with each."""
    out, at = [], 0
    for beats in lengths:
        first = at
        while beats:
            beats -= spelled[at][1]
            at += 1
        out.append([leaves for _, leaves in spelled[first:at]])
    return out


def writes(i: Load, size: int, beat: int) -> list[tuple[str, bool]]:
    if i.x_size == 0:
        return [("nothing", False)]
    pad = ("pad", False)
    width = i.x_pad_0 + i.x_size + i.x_pad_1
    out = [pad] * (i.y_pad_0 * width)
    for row in cells(rows(i, size), size, beat):
        out += [pad] * i.x_pad_0 + row + [pad] * i.x_pad_1
    out += [pad] * (i.y_pad_1 * width)
    return out or [("nothing", False)]


@dataclass
class Slot:
    reads: tuple[int, ...]
    writes: int | None = None
    slow: bool = False
    last: bool = False


def slots_of(i: Instruction, uops: np.ndarray, config: Config) -> list[Slot]:
    if not isinstance(i, (Gemm, Alu)) or i.count == 0:
        return [Slot((), last=True)]
    dst0, src0, _ = decode_uops(uops[i.uop_begin : i.uop_end], config)
    out: list[Slot] = []
    previous = None
    for o in range(i.iter_out):
        for n in range(i.iter_in):
            for d, s in zip(dst0.tolist(), src0.tolist(), strict=True):
                dst = d + o * i.dst_factor_out + n * i.dst_factor_in
                src = s + o * i.src_factor_out + n * i.src_factor_in
                if isinstance(i, Gemm):
                    reads = () if i.reset or i.overwrite else (dst,)
                    out.append(Slot(reads, dst))
                elif i.alu_opcode is AluOp.RQ:
                    if src != previous:
                        out += [Slot((src + k,)) for k in range(TIMING.rq_parameter_reads)]
                    previous = src
                    out.append(Slot((dst,), dst, slow=True))
                else:
                    if not i.use_imm:
                        out.append(Slot((src,)))
                    slow = i.alu_opcode in (AluOp.MUL, AluOp.SHR)
                    out.append(Slot((dst,), dst, slow=slow))
    out[-1].last = True
    return out
