"""Programs about what compute computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import Alu, AluOp, Gemm, MemoryType

from .draft import Check, Draft

__all__ = ["alu_checks", "gemm_checks", "rq_checks"]

_ENTRIES = 12
_LONGEST_SHIFT = 35
"""Past the width of a word, in both directions."""


def gemm_checks(config: Config) -> Iterator[Check]:
    """Products that add up, that overwrite, and resets."""
    half = _ENTRIES // 2
    for name in ("accumulate", "overwrite", "reset"):
        draft = Draft(config, 10)
        inputs = draft.bytes(_ENTRIES, config.batch, config.block_in)
        weights = draft.bytes(4, config.block_out, config.block_in)
        acc = draft.words(_ENTRIES)
        draft.load(MemoryType.INP, 0, draft.place(MemoryType.INP, inputs), _ENTRIES)
        draft.load(MemoryType.WGT, 0, draft.place(MemoryType.WGT, weights), 4)
        draft.load(MemoryType.ACC, 0, draft.place(MemoryType.ACC, acc), _ENTRIES)
        loops: dict[str, Any] = {"iter_out": 3, "src_factor_out": 2, "wgt_factor_out": 1}
        inner: dict[str, Any] = {"iter_in": half, "dst_factor_in": 1, "src_factor_in": 1}
        uops = draft.uops((0, 0, 0), (half, 1, 1))
        draft.add(Gemm(**uops, **loops, **inner))
        first = uops | {"uop_end": uops["uop_begin"] + 1}
        if name == "overwrite":
            draft.add(Gemm(**first, **inner, overwrite=True))
        elif name == "reset":
            draft.add(Gemm(**first, iter_in=half, dst_factor_in=2, reset=True))
        draft.show(0, _ENTRIES)
        yield draft.check("gemm", name)


def alu_checks(config: Config) -> Iterator[Check]:
    """Each operation with an immediate, and of two entries."""
    for op in (AluOp.MIN, AluOp.MAX, AluOp.ADD, AluOp.SHR, AluOp.MUL):
        for immediate in (True, False):
            draft = Draft(config, 20 + op)
            values = draft.words(2 * _ENTRIES)
            if op is AluOp.SHR:
                shape = (_ENTRIES, draft.lanes)
                shifts = draft.random.integers(-_LONGEST_SHIFT, _LONGEST_SHIFT + 1, shape)
                values[_ENTRIES:] = shifts
            draft.load(MemoryType.ACC, 0, draft.place(MemoryType.ACC, values), 2 * _ENTRIES)
            loop: dict[str, Any] = {"iter_in": _ENTRIES, "dst_factor_in": 1}
            uops = draft.uops((0, _ENTRIES, 0))
            if immediate:
                number = -5 if op is AluOp.SHR else -12345
                draft.add(Alu(alu_opcode=op, use_imm=True, imm=number, **uops, **loop))
            else:
                draft.add(Alu(alu_opcode=op, **uops, **loop, src_factor_in=1))
            draft.show(0, _ENTRIES)
            yield draft.check(f"alu {op.name.lower()}", "immediate" if immediate else "two entries")


def rq_checks(config: Config) -> Iterator[Check]:
    """Requantization: both roundings, zero points, and a range to clip to."""
    for single in (False, True):
        draft = Draft(config, 30 + single)
        parameters = [_parameters(draft, single) for _ in range(2)]
        acc = draft.random.integers(-(1 << 22), 1 << 22, (_ENTRIES, draft.lanes))
        values = np.concatenate([acc, *parameters]).astype(np.int32)
        draft.load(MemoryType.ACC, 0, draft.place(MemoryType.ACC, values), len(values))
        half = _ENTRIES // 2
        loop: dict[str, Any] = {"iter_in": half, "dst_factor_in": 1}
        uops = draft.uops((0, _ENTRIES, 0), (half, _ENTRIES + 3, 0))
        clip = (-100 & 0xFF) | 90 << 8
        draft.add(Alu(alu_opcode=AluOp.RQ, imm=clip, **uops, **loop))
        draft.show(0, _ENTRIES)
        yield draft.check("rq", "rounded once" if single else "rounded twice")


def _parameters(draft: Draft, single: bool) -> NDArray[np.int64]:
    """Return bias, multiplier and packed shift, zero point and rounding of each lane."""
    random, lanes = draft.random, draft.lanes
    bias = random.integers(-(1 << 20), 1 << 20, lanes)
    multiplier = random.integers(1 << 30, 1 << 31, lanes)
    shift, zero = random.integers(10, 18, lanes), random.integers(-20, 20, lanes)
    packed: NDArray[np.int64] = np.stack(
        [bias, multiplier, shift | (zero & 0xFF) << 8 | int(single) << 16]
    )
    return packed
