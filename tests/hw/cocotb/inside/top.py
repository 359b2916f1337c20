"""A program end to end with waits on every channel, errors, soft reset, interrupt, illegal code."""

from __future__ import annotations

from itertools import cycle
from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam, AxiResp

from tests.hw.faults.programs import arithmetic, movement, product
from vdla.config import TINY
from vdla.isa import Finish
from vdla.program import Program
from vdla.registers import ErrorCause, ErrorModule, Register
from vdla.sim import functional

CODE, SIZE, GUARD = 0x8000, 0x10000, 0x5A
START, SOFT_RESET, INTERRUPT_ENABLE = 1, 2, 4
RUNNING, DONE, ERROR = 1, 2, 4


class TB:
    """The top with a RAM that also notes what no master may do."""

    def __init__(self, dut: Any, waits: float = 0.0) -> None:
        self.dut = dut
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=SIZE)
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
        write, read = self.ram.write_if, self.ram.read_if
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
        self.dut.rst.value = 1
        cocotb.start_soon(Clock(self.dut.clk, 10, unit="ns").start())
        for _ in range(4):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def launch(self, program: Program, dram: np.ndarray) -> None:
        words = program.instructions[: program.finish + 1].tobytes()
        assert len(dram) <= CODE
        self.ram.write(0, bytes([GUARD]) * SIZE)
        self.ram.write(0, dram.tobytes())
        self.ram.write(CODE, words)
        await self.master.write_qword(Register.INSTRUCTION_BASE, CODE)
        await self.master.write_dword(Register.INSTRUCTION_COUNT, program.finish + 1)
        await self.master.write_dword(Register.CONTROL, START | INTERRUPT_ENABLE)

    async def interrupted(self, limit: int = 20000) -> None:
        for _ in range(limit):
            await RisingEdge(self.dut.clk)
            if self.dut.interrupt.value:
                return
        raise AssertionError("There is no interrupt.")

    async def run(self, case: Any) -> None:
        """Run to the interrupt; outputs are right and every other byte is as it was."""
        await self.launch(case.program, case.fresh())
        await self.interrupted()
        assert await self.master.read_dword(Register.STATUS) & (DONE | ERROR | RUNNING) == DONE
        want = case.fresh()
        functional.run(case.program, want)
        assert self.ram.read(0, len(want)) == want.tobytes()
        size = 16 * (case.program.finish + 1)
        guards = self.ram.read(len(want), CODE - len(want))
        guards += self.ram.read(CODE + size, SIZE - CODE - size)
        assert set(guards) == {GUARD}

    async def fails(self, cause: ErrorCause, module: ErrorModule) -> None:
        await self.interrupted()
        status = await self.master.read_dword(Register.STATUS)
        assert status & (DONE | ERROR | RUNNING) == ERROR
        error = await self.master.read_dword(Register.ERROR)
        assert error & 0xFF == cause
        assert error >> 8 & 0xFF == module


@cocotb.test()
async def programs(dut: Any) -> None:
    tb = TB(dut)
    await tb.start()
    for case in (movement(), product(), arithmetic()):
        await tb.run(case)


@cocotb.test()
async def programs_with_waits(dut: Any) -> None:
    tb = TB(dut, 0.4)
    await tb.start()
    for case in (movement(), product(), arithmetic()):
        await tb.run(case)


@cocotb.test()
async def registers_are_read_while_it_runs(dut: Any) -> None:
    tb = TB(dut, 0.4)
    await tb.start()
    case, before = movement(), -1
    await tb.launch(case.program, case.fresh())
    while not dut.interrupt.value:
        now = await tb.master.read_dword(Register.CYCLES)
        assert now > before
        before = now
    assert await tb.master.read_dword(Register.STATUS) & DONE


@cocotb.test()
async def soft_reset_in_mid_flight(dut: Any) -> None:
    tb = TB(dut, 0.3)
    await tb.start()
    case = movement()
    for cycles in (20, 60, 111, 150, 200, 260):
        await tb.launch(case.program, case.fresh())
        for _ in range(cycles):
            await RisingEdge(dut.clk)
        await tb.master.write_dword(Register.CONTROL, SOFT_RESET | INTERRUPT_ENABLE)
        for _ in range(2000):
            if not await tb.master.read_dword(Register.STATUS) & ~0x28:
                break
        await tb.run(product())


@cocotb.test()
async def illegal_instruction(dut: Any) -> None:
    tb = TB(dut, 0.2)
    await tb.start()
    program = Program.from_instructions([Finish()], TINY)
    program.instructions.view(np.uint8)[..., 0] |= 7  # the opcode's bits
    await tb.launch(program, np.zeros(8, np.uint8))
    await tb.fails(ErrorCause.ILLEGAL_OPCODE, ErrorModule.FETCH)
    await tb.run(product())


@cocotb.test()
async def error_responses(dut: Any) -> None:
    """On each channel; the next run is clean."""
    tb = TB(dut, 0.2)
    await tb.start()
    read, write = tb.ram.read_if, tb.ram.write_if
    for where, cause in (
        (read.r_channel, ErrorCause.AXI_READ),
        (write.b_channel, ErrorCause.AXI_WRITE),
    ):
        field = "rresp" if where is read.r_channel else "bresp"
        original = where.send

        async def send(item: Any, original: Any = original, field: str = field) -> None:
            setattr(item, field, AxiResp.SLVERR)
            await original(item)

        where.send = send
        case = product()
        await tb.launch(case.program, case.fresh())
        module = ErrorModule.FETCH if cause is ErrorCause.AXI_READ else ErrorModule.STORE
        await tb.fails(cause, module)
        where.send = original
        await tb.run(product())


@cocotb.test()
async def the_cycle_limit(dut: Any) -> None:
    tb = TB(dut)
    await tb.start()
    await tb.master.write_dword(Register.CYCLE_LIMIT, 100)
    case = movement()
    await tb.launch(case.program, case.fresh())
    await tb.fails(ErrorCause.CYCLE_LIMIT, ErrorModule.CONTROL)
    assert await tb.master.read_dword(Register.CYCLES) == 100
    await tb.master.write_dword(Register.CYCLE_LIMIT, 0)
    await tb.run(product())
