"""Programs about fetching, loading and storing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vdla.config import Config
from vdla.isa import Alu, AluOp, Gemm, MemoryType, Store

from .draft import Check, Draft

__all__ = ["fetch_checks", "load_checks", "store_checks"]

_ROWS, _COLUMNS, _STRIDE = 3, 2, 5
_PADS: dict[str, Any] = {"y_pad_0": 1, "y_pad_1": 1, "x_pad_0": 1, "x_pad_1": 2}
_FILL = -3
_BLOCK = (_ROWS + 2) * (_COLUMNS + 3)
"""Entries that the padded block takes."""
_LONG = 48
"""Entries of a load of several bursts."""


def fetch_checks(config: Config) -> Iterator[Check]:
    """Fetch, and the way of an instruction through compute."""
    yield Draft(config).check("fetch", "finish")
    draft = Draft(config)
    draft.add(*[Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=0)] * 100)
    yield draft.check("fetch", "100 instructions")


def store_checks(config: Config) -> Iterator[Check]:
    """Zeros through OUT: in a row, and in two dimensions."""
    draft = Draft(config, 1)
    loop: dict[str, Any] = {"iter_in": _LONG, "dst_factor_in": 1}
    draft.add(Gemm(**draft.uops((0, 0, 0)), **loop, reset=True))
    draft.store(0, _LONG)
    yield draft.check("store", "zeros")
    draft = Draft(config, 2)
    _acc(draft, MemoryType.ACC_8BIT, _LONG)
    draft.flag(push_next=True)
    target = draft.place(MemoryType.OUT, np.full((64, draft.lanes), 0x55, np.int8))
    rows: dict[str, Any] = {"y_size": 4, "x_size": 3, "x_stride": 7}
    draft.add(
        Store(sram_base=2, dram_base=target, **rows, pop_prev=True, push_prev=True),
        Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=0, pop_next=True),
    )
    yield draft.check("store", "two dimensions")


def load_checks(config: Config) -> Iterator[Check]:
    """Each memory type: a long row, and a block with strides and padding on all sides."""
    for kind in (MemoryType.ACC, MemoryType.ACC_8BIT):
        name = f"load {kind.name.lower()}"
        draft = Draft(config, 3)
        _acc(draft, kind, _LONG)
        draft.show(0, _LONG)
        yield draft.check(name, "a row")
        draft = Draft(config, 4)
        _load_block(draft, kind)
        draft.show(0, _BLOCK)
        yield draft.check(name, "strides and padding")
    for kind, show in ((MemoryType.INP, _show_inp), (MemoryType.WGT, _show_wgt)):
        name = f"load {kind.name.lower()}"
        draft = Draft(config, 5)
        count = _LONG if kind is MemoryType.INP else 5
        draft.load(kind, 0, draft.place(kind, _elements(draft, kind, count)), count)
        show(draft, count)
        yield draft.check(name, "a row")
        draft = Draft(config, 6)
        _load_block(draft, kind)
        show(draft, _BLOCK)
        yield draft.check(name, "strides and padding")
    yield _uops(config)


def _elements(draft: Draft, kind: MemoryType, count: int) -> Any:
    config = draft.config
    if kind is MemoryType.ACC:
        return draft.words(count)
    if kind is MemoryType.ACC_8BIT:
        return draft.bytes(count, draft.lanes)
    if kind is MemoryType.INP:
        return draft.bytes(count, config.batch, config.block_in)
    return draft.bytes(count, config.block_out, config.block_in)


def _load_block(draft: Draft, kind: MemoryType) -> None:
    """Load a block in the middle of a larger array."""
    base = draft.place(kind, _elements(draft, kind, _ROWS * _STRIDE + 1))
    fields: dict[str, Any] = {"y_size": _ROWS, "x_stride": _STRIDE, "pad_value": _FILL, **_PADS}
    draft.load(kind, 0, base + 1, _COLUMNS, **fields)


def _acc(draft: Draft, kind: MemoryType, count: int) -> None:
    """Load ACC entries, and have OUT follow them."""
    draft.load(kind, 0, draft.place(kind, _elements(draft, kind, count)), count)
    loop: dict[str, Any] = {"iter_in": count, "dst_factor_in": 1}
    draft.add(Alu(alu_opcode=AluOp.ADD, use_imm=True, imm=0, **draft.uops((0, 0, 0)), **loop))


def _show_inp(draft: Draft, count: int) -> None:
    """Multiply INP by identities, as many as cover all lanes."""
    config = draft.config
    parts = -(-config.block_in // config.block_out)
    eyes = [np.eye(config.block_out, config.block_in, k * config.block_out) for k in range(parts)]
    weights = np.stack(eyes).astype(np.int8)
    draft.load(MemoryType.WGT, 0, draft.place(MemoryType.WGT, weights), parts)
    loop: dict[str, Any] = {"iter_in": count, "dst_factor_in": 1, "src_factor_in": 1}
    uops = draft.uops(*[(part * count, 0, part) for part in range(parts)])
    draft.add(Gemm(**uops, **loop, overwrite=True))
    draft.store(0, parts * count)


def _show_wgt(draft: Draft, count: int) -> None:
    """Multiply WGT by inputs that are 1 in one lane: its columns."""
    config = draft.config
    inputs = np.repeat(np.eye(config.block_in, dtype=np.int8)[:, None], config.batch, axis=1)
    draft.load(MemoryType.INP, 0, draft.place(MemoryType.INP, inputs), config.block_in)
    loops: dict[str, Any] = {
        "iter_out": count,
        "dst_factor_out": config.block_in,
        "wgt_factor_out": 1,
    }
    lanes: dict[str, Any] = {"iter_in": config.block_in, "dst_factor_in": 1, "src_factor_in": 1}
    draft.add(Gemm(**draft.uops((0, 0, 0)), **loops, **lanes, overwrite=True))
    draft.store(0, count * config.block_in)


def _uops(config: Config) -> Check:
    """Micro-ops in two dimensions, padded: what each adds to shows which they are."""
    draft = Draft(config, 7)
    entries = 24
    draft.load(MemoryType.ACC, 0, draft.place(MemoryType.ACC, draft.words(entries)), entries)
    words = draft.random.integers(0, entries, _ROWS * _STRIDE + 1).astype("<u4")  # dst alone
    base = draft.place(MemoryType.UOP, words)
    fields: dict[str, Any] = {"y_size": _ROWS, "x_stride": _STRIDE, "pad_value": 3, **_PADS}
    first = 32
    draft.load(MemoryType.UOP, first, base + 1, _COLUMNS, **fields)
    draft.add(
        Alu(alu_opcode=AluOp.ADD, use_imm=True, imm=77, uop_begin=first, uop_end=first + _BLOCK)
    )
    draft.show(0, entries)
    return draft.check("load uop", "strides and padding")
