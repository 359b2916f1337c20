"""The half of the top's bench that owns clock, reset, memory, master and what the bus must keep."""

from __future__ import annotations

import logging
from itertools import cycle
from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave

from tests.builder import Case
from tests.hw.transfers import GUARD
from vdla.program import Program
from vdla.registers import BASES, ErrorCause, ErrorModule, Register
from vdla.sim import functional

__all__ = ["CODE", "ENABLE", "SOFT_RESET", "START", "System"]

SIZE, CODE = 0x10_0000, 0xC_0000
_CONTROL, _STATUS = Register.CONTROL, Register.STATUS
START, SOFT_RESET = _CONTROL.bits("start").mask, _CONTROL.bits("soft_reset").mask
ENABLE = _CONTROL.bits("interrupt_enable").mask


class Memory:
    """What is behind the slave: bytes, of which a range may be refused."""

    def __init__(self) -> None:
        self.bytes = np.full(SIZE, GUARD, np.uint8)
        self.refused = range(0)

    async def read(self, address: int, length: int) -> bytes:
        self._check(address, length)
        return self.bytes[address : address + length].tobytes()

    async def write(self, address: int, data: bytes) -> None:
        self._check(address, len(data))
        self.bytes[address : address + len(data)] = np.frombuffer(data, np.uint8)

    def _check(self, address: int, length: int) -> None:
        refused = self.refused
        if address + length > SIZE or address < refused.stop and refused.start < address + length:
            raise ValueError(f"{address:#x} is refused")  # the slave answers SLVERR


class Bus:
    """Sees every handshake: what is offered stays until it is taken, what is asked is answered."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.owed = {"read": 0, "write": 0}
        prefix = "m_axi_"
        payload = {
            "ar": ("araddr", "arlen", "arsize", "arburst"),
            "aw": ("awaddr", "awlen", "awsize", "awburst"),
            "w": ("wdata", "wstrb", "wlast"),
        }
        self._channels = [
            tuple(getattr(dut, f"{prefix}{n}") for n in (f"{c}valid", f"{c}ready", *names))
            for c, names in payload.items()
        ]
        self._r = [getattr(dut, prefix + n) for n in ("rvalid", "rready", "rlast")]
        self._b = [getattr(dut, prefix + n) for n in ("bvalid", "bready")]

    @property
    def asks(self) -> bool:
        """Whether an address or a beat is offered now."""
        return any(int(valid.value) for valid, *_ in self._channels)

    async def watch(self) -> None:
        waiting: list[tuple[int, ...] | None] = [None, None, None]
        edge = RisingEdge(self.dut.clk)
        while True:
            await edge
            for k, (valid, ready, *signals) in enumerate(self._channels):
                if not valid.value:
                    assert waiting[k] is None, f"channel {k} took back what it offered"
                    continue
                now = tuple(int(signal.value) for signal in signals)
                assert waiting[k] in (None, now), f"channel {k} changed what it offered"
                taken = bool(ready.value)
                waiting[k] = None if taken else now
                if taken and k < 2:
                    self.owed[("read", "write")[k]] += 1
            if all(signal.value for signal in self._r):
                self.owed["read"] -= 1
            if all(signal.value for signal in self._b):
                self.owed["write"] -= 1
            assert min(self.owed.values()) >= 0


class System:
    """The top, a memory on its AXI port and a master on its registers.

    Parameters
    ----------
    dut : handle
    waits : float
        Probability that a channel of the memory waits for a cycle.
    """

    def __init__(self, dut: Any, waits: float = 0.0) -> None:
        self.dut, self.memory, self.bus = dut, Memory(), Bus(dut)
        slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, target=self.memory)
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
        write, read = slave.write_if, slave.read_if
        for interface in (write, read, self.master.write_if, self.master.read_if):
            interface.log.setLevel(logging.ERROR)  # a line a burst takes longer than the burst
        channels = (
            write.aw_channel,
            write.w_channel,
            write.b_channel,
            read.ar_channel,
            read.r_channel,
        )
        for k, channel in enumerate(channels if waits else ()):
            rng = Random(cocotb.RANDOM_SEED + k)
            channel.set_pause_generator(cycle([rng.random() < waits for _ in range(499)]))

    async def start(self) -> None:
        """Start the clock and reset."""
        self.dut.rst.value = 1
        cocotb.start_soon(Clock(self.dut.clk, 10, unit="ns").start())
        await self.cycles(4)
        self.dut.rst.value = 0
        await self.cycles(3)
        cocotb.start_soon(self.bus.watch())

    async def cycles(self, count: int) -> None:
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def launch(self, program: Program, dram: np.ndarray, base: int = 0) -> None:
        """Fill memory around data and instructions with guards, and set the start bit."""
        words = program.instructions.view(np.uint8).reshape(-1)
        assert base + len(dram) <= CODE
        assert CODE + len(words) <= SIZE
        self.memory.bytes[:] = GUARD
        self.memory.bytes[base : base + len(dram)] = dram
        self.memory.bytes[CODE : CODE + len(words)] = words
        await self.master.write_qword(Register.INSTRUCTION_BASE, CODE)
        await self.master.write_dword(Register.INSTRUCTION_COUNT, len(program))
        for register in BASES.values():
            await self.master.write_qword(register, base)
        await self.master.write_dword(_CONTROL, START | ENABLE)

    async def interrupted(self, most: int = 100_000) -> None:
        for _ in range(most):
            await RisingEdge(self.dut.clk)
            if self.dut.interrupt.value:
                return
        raise AssertionError(f"There is no interrupt within {most} cycles.")

    async def status(self) -> set[str]:
        """Return the names of the bits of STATUS that are set."""
        word = await self.master.read_dword(_STATUS)
        return {bits.name for bits in _STATUS.fields if bits.of(word)}

    async def run(self, case: Case, base: int = 0) -> None:
        """Run to the interrupt; outputs are right and every other byte is as it was."""
        await self.launch(case.program, case.fresh(), base)
        want = self.memory.bytes.copy()
        data = case.fresh()
        image = np.concatenate([np.full(base, GUARD, np.uint8), data])
        functional.run(case.program, image, base=base)
        want[: len(image)] = image
        await self.interrupted()
        assert await self.status() == {"done", "interrupt", "idle"}
        wrong = np.flatnonzero(self.memory.bytes != want)
        assert len(wrong) == 0, f"{case.name}: {len(wrong)} bytes are wrong, from {wrong[0]:#x}"

    async def fails(self, module: ErrorModule, cause: ErrorCause, index: int | None) -> None:
        """Wait for the interrupt of a stop, and hold the registers to it."""
        await self.interrupted()
        assert await self.status() - {"idle"} == {"error", "interrupt"}
        error = await self.master.read_dword(Register.ERROR)
        assert Register.ERROR.bits("cause").of(error) == cause
        assert Register.ERROR.bits("module").of(error) == module
        if index is not None:
            assert await self.master.read_dword(Register.ERROR_INDEX) == index

    async def quiet(self) -> None:
        """Wait for a soft reset to end: nothing is owed on the bus then, and nothing is asked."""
        for _ in range(500):
            status = await self.status()
            if "resetting" not in status:
                break
        assert status == {"idle"}
        assert self.bus.owed == {"read": 0, "write": 0}
        for _ in range(40):
            await self.cycles(1)
            assert not self.bus.asks
