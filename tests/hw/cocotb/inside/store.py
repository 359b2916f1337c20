"""STOREs into a guarded memory: every alignment and length, page edges, waits, errors."""

from __future__ import annotations

from random import Random
from typing import Any

import cocotb

from tests.hw.cocotb.inside.tb import TB
from tests.hw.cocotb.units import WIDE
from vdla.config import TINY, Config
from vdla.isa import MemoryType, Store, encode_one

GUARD = 0xA5


class Memory:
    """Answers writes with random waits, and holds OUT behind its read port."""

    def __init__(self, tb: TB, config: Config, seed: int, waits: float) -> None:
        self.tb, self.config, self.rng, self.waits = tb, config, Random(seed), waits
        self.bytes: dict[int, int] = {}
        self.addresses: list[tuple[int, int]] = []
        self.beats: list[tuple[int, int, int]] = []
        self.owed = 0
        self.fail = False
        self.faults: list[int] = []
        self.out = [
            self.rng.getrandbits(8 * config.out_elem_bytes) for _ in range(config.acc_depth)
        ]

    async def cycle(self) -> None:
        """Drive the slave's side for a cycle and take what was handed over."""
        tb, rng = self.tb, self.rng
        ready = [rng.random() >= self.waits for _ in range(3)]
        answer = bool(self.owed and ready[2])
        tb.set(
            channel_request_ready=ready[0],
            channel_ready=ready[1],
            channel_response=answer,
            channel_response_error=answer and self.fail,
        )
        self.owed -= answer
        await tb.high()
        if tb.get("bus_error"):
            assert answer
            self.faults.append(tb.get("fault"))
        if ready[0] and tb.get("channel_request_valid"):
            request = tb.get("channel_request")
            self.addresses.append((request & 0xFFFF_FFFF, (request >> 32) + 1))
        if ready[1] and tb.get("channel_valid"):
            last = tb.get("channel_last")
            self.beats.append((tb.get("channel_data"), tb.get("channel_strobe"), last))
        read, entry = tb.get("read"), tb.get("address")
        await tb.low()
        if read:
            tb.set(data=self.out[entry])
        self._apply()

    def _apply(self) -> None:
        width = self.config.axi_bytes
        while self.addresses:
            address, beats = self.addresses[0]
            if len(self.beats) < beats:
                return
            assert address % width == 0
            assert beats <= self.config.axi_burst_beats
            assert address // 4096 == (address + beats * width - 1) // 4096
            for k in range(beats):
                data, strobe, last = self.beats.pop(0)
                assert last == (k == beats - 1)
                assert strobe
                for lane in range(width):
                    if strobe >> lane & 1:
                        place = address + k * width + lane
                        assert place not in self.bytes, "a byte is written twice"
                        self.bytes[place] = data >> 8 * lane & 0xFF
            self.addresses.pop(0)
            self.owed += 1


async def _store(memory: Memory, sram: int, dram: int, rows: int, size: int, stride: int) -> None:
    """Run one STORE and hold memory to exactly its bytes."""
    tb, element = memory.tb, memory.config.out_elem_bytes
    memory.bytes.clear()
    fields = Store(
        memory_type=MemoryType.OUT,
        sram_base=sram,
        dram_base=dram,
        y_size=rows,
        x_size=size,
        x_stride=stride,
    )
    tb.set(instruction=encode_one(fields, memory.config), start=1)
    assert tb.get("free")
    await memory.cycle()
    tb.set(start=0)
    for _ in range(20 * rows * (size * element // 8 + 40)):
        if tb.get("done"):
            break
        await memory.cycle()
    assert tb.get("done")
    tb.set(take_done=1)
    await memory.cycle()
    tb.set(take_done=0)
    want: dict[int, int] = {}
    for row in range(rows):
        for k in range(size):
            entry = memory.out[sram + row * size + k]
            for byte in range(element):
                place = BASE + (dram + row * stride + k) * element + byte
                want[place] = entry >> 8 * byte & 0xFF
    # Whatever is not in `want` keeps its guard: a write there is a difference.
    assert memory.bytes == want
    assert tb.get("idle")


BASE = 0x10000


async def _sweep(dut: Any, unit: str, config: Config, waits: float) -> None:
    tb = TB(dut, unit)
    inputs = ("start", "take_done", "channel_request_ready", "channel_ready", "channel_response")
    await tb.start(**dict.fromkeys(inputs, 0), base=BASE)
    memory = Memory(tb, config, 7, waits)
    page = 4096 // config.out_elem_bytes
    for offset in (0, 1, 2, 3, page - 1, page - 2, page - 33):
        for size in (1, 2, 3, 4, 5, 31, 32, 33, 34, 65):
            await _store(memory, memory.rng.randrange(100), offset, 1, size, 0)
    for _ in range(12):
        size = memory.rng.randint(1, 9)
        stride = size + memory.rng.randint(0, 40)
        await _store(memory, memory.rng.randrange(64), 3, memory.rng.randint(1, 6), size, stride)
    await _store(memory, 0, 0, 0, 5, 5)
    await _store(memory, 0, 0, 5, 0, 5)


@cocotb.test()
async def narrow(dut: Any) -> None:
    await _sweep(dut, "store", TINY, 0.0)


@cocotb.test()
async def narrow_with_waits(dut: Any) -> None:
    await _sweep(dut, "store", TINY, 0.5)


@cocotb.test()
async def wide(dut: Any) -> None:
    await _sweep(dut, "wide_store", WIDE, 0.0)


@cocotb.test()
async def wide_with_waits(dut: Any) -> None:
    await _sweep(dut, "wide_store", WIDE, 0.5)


@cocotb.test()
async def an_error_response_is_reported(dut: Any) -> None:
    tb = TB(dut, "store")
    await tb.start(start=0, take_done=0, channel_response=0, base=BASE, index=77)
    memory = Memory(tb, TINY, 3, 0.0)
    memory.fail = True
    store = Store(memory_type=MemoryType.OUT, sram_base=0, dram_base=1, y_size=1, x_size=4)
    tb.set(instruction=encode_one(store, TINY), start=1)
    await memory.cycle()
    tb.set(start=0)
    for _ in range(60):
        await memory.cycle()
    assert memory.faults == [77]
