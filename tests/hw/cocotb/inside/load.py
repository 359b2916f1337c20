"""LOADs of every kind against blocks cut out of memory: alignments, lengths, pads, waits."""

from __future__ import annotations

from random import Random
from typing import Any

import cocotb

from tests.hw.cocotb.inside.tb import TB
from vdla.config import TINY
from vdla.gateware.load import LoadKind, compute_kinds, load_kinds
from vdla.isa import Load, encode_one

BASE = 0x20000
SIZE = 1 << 14


class Memory:
    """Answers the reader's bursts in order, with random waits, and records scratchpad writes."""

    def __init__(self, tb: TB, seed: int, waits: float) -> None:
        self.tb, self.rng, self.waits = tb, Random(seed), waits
        self.bytes = self.rng.randbytes(SIZE)
        self.beats: list[tuple[int, int]] = []
        self.writes: list[tuple[int, int, int]] = []
        self.fail = False
        self.done = 0

    async def cycle(self) -> None:
        tb, rng, width = self.tb, self.rng, TINY.axi_bytes
        grant = bool(tb.get("source_valid")) and rng.random() >= self.waits
        give = bool(self.beats) and rng.random() >= self.waits
        if give:
            address, last = self.beats.pop(0)
            place = address - BASE
            data = int.from_bytes(self.bytes[place : place + width], "little")
            beat = data | last << 8 * width | self.fail << 8 * width + 1
            tb.set(source_beat=beat)
        tb.set(source_beat_valid=give, source_grant=grant)
        await tb.high()
        if grant:
            request = tb.get("source_request")
            address, beats = request & 0xFFFF_FFFF, (request >> 32) + 1
            assert address // 4096 == (address + beats * width - 1) // 4096
            self.beats += [(address + k * width, int(k == beats - 1)) for k in range(beats)]
        self.done += tb.get("done")
        await tb.low()
        if tb.get("write"):
            self.writes.append((tb.get("write"), tb.get("address"), tb.get("data")))


def entry(memory: Memory, kind: LoadKind, index: int | None, pad: int) -> int:
    """Return an element as its scratchpad holds it: sign-extended, or padding where no index."""
    value, size = 0, kind.memory_bits // 8
    for k in range(kind.scalars):
        scalar = pad
        if index is not None:
            place = (index * kind.scalars + k) * size
            scalar = int.from_bytes(memory.bytes[place : place + size], "little", signed=True)
        value |= (scalar & ((1 << kind.sram_bits) - 1)) << kind.sram_bits * k
    return value


async def _load(memory: Memory, kind: LoadKind, load: Load) -> None:
    tb = memory.tb
    memory.writes.clear()
    before = memory.done
    tb.set(instruction=encode_one(load, TINY), start=1)
    assert tb.get("free")
    await memory.cycle()
    tb.set(start=0)
    for _ in range(20000):
        if memory.done > before:
            break
        await memory.cycle()
    await memory.cycle()
    assert memory.done == before + 1
    width = load.x_pad_0 + load.x_size + load.x_pad_1
    want, at = [], load.sram_base
    for y in range(-load.y_pad_0, load.y_size + load.y_pad_1):
        for x in range(-load.x_pad_0, load.x_size + load.x_pad_1):
            inside = 0 <= y < load.y_size and 0 <= x < load.x_size
            index = load.dram_base + y * load.x_stride + x if inside else None
            want.append((1 << kind.bank, at, entry(memory, kind, index, load.pad_value)))
            at += 1
    assert len(want) == width * (load.y_pad_0 + load.y_size + load.y_pad_1)
    # All writes in order, and no other: an entry beside the block is never touched.
    assert memory.writes == (want if load.x_size else [])


async def _sweep(dut: Any, unit: str, kinds: tuple[LoadKind, ...], waits: float) -> None:
    tb = TB(dut, unit)
    bases = {f"bases_{k}": BASE for k in range(len(kinds))}
    await tb.start(start=0, source_grant=0, source_beat_valid=0, source_beat=0, **bases)
    memory = Memory(tb, 5, waits)
    rng = memory.rng
    for kind in kinds:
        # Data past the guard of the scratchpad's end would be an overflow, which errors tests hold.
        page = 4096 // kind.memory_bytes
        for offset in (0, 1, 2, 3, page - 1, page - 3):
            for size in (1, 2, 3, 7, 8, 33, 67):
                await _load(
                    memory,
                    kind,
                    Load(
                        memory_type=kind.memory_type,
                        sram_base=rng.randrange(40),
                        dram_base=offset,
                        y_size=1,
                        x_size=size,
                    ),
                )
        for _ in range(15):
            size = rng.randint(0, 6)
            await _load(
                memory,
                kind,
                Load(
                    memory_type=kind.memory_type,
                    sram_base=rng.randrange(8),
                    dram_base=rng.randrange(30),
                    y_size=rng.randint(0, 4),
                    x_size=size,
                    x_stride=size + rng.randint(0, 20),
                    y_pad_0=rng.randint(0, 2),
                    y_pad_1=rng.randint(0, 2),
                    x_pad_0=rng.randint(0, 3),
                    x_pad_1=rng.randint(0, 3),
                    pad_value=rng.randint(-128, 127),
                ),
            )


@cocotb.test()
async def load_module(dut: Any) -> None:
    await _sweep(dut, "load", load_kinds(TINY), 0.0)


@cocotb.test()
async def load_module_with_waits(dut: Any) -> None:
    await _sweep(dut, "load", load_kinds(TINY), 0.5)


@cocotb.test()
async def loader(dut: Any) -> None:
    await _sweep(dut, "loader", compute_kinds(TINY), 0.0)


@cocotb.test()
async def loader_with_waits(dut: Any) -> None:
    await _sweep(dut, "loader", compute_kinds(TINY), 0.5)


async def _faulty(dut: Any, fail: bool, sram: int) -> set[str]:
    tb, kind = TB(dut, "load"), load_kinds(TINY)[0]
    await tb.start(start=0, source_grant=0, source_beat_valid=0, bases_0=BASE, index=9)
    memory = Memory(tb, 6, 0.0)
    memory.fail = fail
    load = Load(
        memory_type=kind.memory_type, sram_base=sram, dram_base=0, y_size=1, x_size=4, x_stride=4
    )
    tb.set(instruction=encode_one(load, TINY), start=1)
    await memory.cycle()
    tb.set(start=0)
    seen = set()
    for _ in range(40):
        for name in ("bus_error", "overflow"):
            if tb.get(name):
                assert tb.get("fault") == 9
                seen.add(name)
        await memory.cycle()
    # Nothing is written past the scratchpad's end.
    assert all(address < kind.depth for _, address, _ in memory.writes)
    assert len(memory.writes) == min(4, kind.depth - sram)
    return seen


@cocotb.test()
async def an_error_response_is_reported(dut: Any) -> None:
    assert await _faulty(dut, True, 0) == {"bus_error"}


@cocotb.test()
async def an_entry_past_the_end_is_reported_and_not_written(dut: Any) -> None:
    assert await _faulty(dut, False, load_kinds(TINY)[0].depth - 2) == {"overflow"}
