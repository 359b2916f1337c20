"""Programs about tokens, one for each queue: work that is wrong where nobody waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.config import Config
from vdla.isa import Alu, AluOp, Gemm, Load, MemoryType, Store

from .draft import Check, Draft

__all__ = ["token_checks"]

_ROUNDS = 5
_ENTRIES = 8
_AGAIN = 12
"""Times that a product is computed over, so that whoever does not wait comes in between."""
_GRADE = "tokens"


def token_checks(config: Config) -> Iterator[Check]:
    """Each queue handing on data, and one filled to its end."""
    yield _loads(config, "load->compute", back=False)
    yield _loads(config, "compute->load", back=True)
    yield _stores(config, "compute->store", back=False)
    yield _stores(config, "store->compute", back=True)
    yield _full(config)


def _loads(config: Config, name: str, *, back: bool) -> Check:
    """Products of inputs loaded round by round; `back`: each over the ones before."""
    draft = Draft(config, 40)
    inputs = draft.bytes(_ROUNDS * _ENTRIES, config.batch, config.block_in)
    weights = draft.bytes(_ENTRIES, config.block_out, config.block_in)
    weight = draft.place(MemoryType.WGT, weights)
    draft.load(MemoryType.WGT, 0, weight, 1)
    first = draft.place(MemoryType.INP, inputs)
    starts = [k * _ENTRIES for k in range(_ROUNDS)]
    uops = draft.uops(*[(start, 0 if back else start, 0) for start in starts])
    if not back:  # the first inputs come late, behind padding that is written first
        late: dict[str, Any] = {"x_size": _ENTRIES, "y_pad_1": _AGAIN}
        draft.add(Load(memory_type=MemoryType.WGT, sram_base=1, dram_base=weight, **late))
    for k in range(_ROUNDS):
        at = 0 if back else k * _ENTRIES
        taken, more = back and k > 0, back and k + 1 < _ROUNDS
        draft.add(
            Load(
                memory_type=MemoryType.INP,
                sram_base=at,
                dram_base=first + k * _ENTRIES,
                x_size=_ENTRIES,
                pop_next=taken,
                push_next=True,
            )
        )
        uop = uops["uop_begin"] + k
        inner: dict[str, Any] = {"iter_in": _ENTRIES, "dst_factor_in": 1, "src_factor_in": 1}
        again: dict[str, Any] = {"iter_out": _AGAIN if back else 1}
        tokens: dict[str, Any] = {"pop_prev": True, "push_prev": more}
        draft.add(Gemm(uop_begin=uop, uop_end=uop + 1, **again, **inner, **tokens, overwrite=True))
    draft.store(0, _ROUNDS * _ENTRIES)
    return draft.check(_GRADE, name)


def _stores(config: Config, name: str, *, back: bool) -> Check:
    """Stores of what was just computed; `back`: the same entries again and again."""
    draft = Draft(config, 41)
    values = draft.random.integers(-60, 60, (_ROUNDS * _ENTRIES, draft.lanes)).astype(np.int32)
    draft.load(MemoryType.ACC, 0, draft.place(MemoryType.ACC, values), _ROUNDS * _ENTRIES)
    untouched = np.full((_ROUNDS * _ENTRIES, draft.lanes), 0x55, np.int8)
    target = draft.place(MemoryType.OUT, untouched)
    uops = draft.uops(*[(0 if back else k * _ENTRIES, 0, 0) for k in range(_ROUNDS)])
    for k in range(_ROUNDS):
        uop = uops["uop_begin"] + k
        loop: dict[str, Any] = {"iter_in": _ENTRIES, "dst_factor_in": 1}
        draft.add(
            Alu(
                alu_opcode=AluOp.ADD,
                use_imm=True,
                imm=k + 1,
                uop_begin=uop,
                uop_end=uop + 1,
                **loop,
                push_next=True,
                pop_next=back and k > 0,
            ),
            Store(
                sram_base=0 if back else k * _ENTRIES,
                dram_base=target + k * _ENTRIES,
                x_size=_ENTRIES,
                pop_prev=True,
                push_prev=back or k + 1 == _ROUNDS,
            ),
        )
    draft.add(Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=0, pop_next=True))
    return draft.check(_GRADE, name)


def _full(config: Config) -> Check:
    """More tokens than a queue holds: who pushes waits until some are taken."""
    draft = Draft(config)
    more = config.token_queue_depth + 5
    nothing = Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=0)
    draft.add(*[replace(nothing, push_next=True)] * more)
    draft.add(*[Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=0, pop_prev=True)] * more)
    return draft.check(_GRADE, "a full queue")
