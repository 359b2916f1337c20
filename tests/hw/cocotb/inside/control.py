"""The control port behind cocotbext-axi's master, with waits on every channel."""

from __future__ import annotations

from itertools import cycle
from random import Random
from typing import Any

import cocotb
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from tests.hw.cocotb.inside.tb import TB
from vdla.config import TINY
from vdla.registers import BASES, IDENTITY, Register


async def _master(dut: Any, waits: bool) -> tuple[TB, AxiLiteMaster]:
    tb = TB(dut, "control")
    bus = AxiLiteBus.from_prefix(dut, "control_s_axi")
    master = AxiLiteMaster(bus, dut.clk, dut.rst)
    await tb.start(core_bus_idle=1, core_idle=1, core_done=0, core_error=0, core_events=0)
    if waits:
        for k, channel in enumerate(
            (
                master.write_if.aw_channel,
                master.write_if.w_channel,
                master.write_if.b_channel,
                master.read_if.ar_channel,
                master.read_if.r_channel,
            )
        ):
            rng = Random(k)
            channel.set_pause_generator(cycle([rng.random() < 0.4 for _ in range(97)]))
    return tb, master


async def _registers(dut: Any, waits: bool) -> None:
    _, master = await _master(dut, waits)
    assert await master.read_dword(Register.ID) == IDENTITY
    assert await master.read_qword(Register.CONFIG_HASH) == TINY.hash
    rng = Random(11)
    for register in BASES.values():
        value = rng.getrandbits(64)
        await master.write_qword(register, value)
        for byte in range(8):  # one byte at a time: the others stay
            patch = rng.getrandbits(8)
            await master.write(register + byte, bytes([patch]))
            value = value & ~(0xFF << 8 * byte) | patch << 8 * byte
            assert await master.read_qword(register) == value
    # A read-only register keeps its value, whatever the response.
    await master.write(Register.ID, b"\0\0\0\0")
    assert await master.read_dword(Register.ID) == IDENTITY
    assert (await master.read(0xFFC, 4)).resp != AxiResp.OKAY


@cocotb.test()
async def registers(dut: Any) -> None:
    await _registers(dut, False)


@cocotb.test()
async def registers_with_waits(dut: Any) -> None:
    await _registers(dut, True)


@cocotb.test()
async def a_run_and_its_interrupt(dut: Any) -> None:
    tb, master = await _master(dut, True)
    await master.write_dword(Register.CONTROL, 0b101)  # start, interrupt enable
    assert await master.read_dword(Register.STATUS) & 1
    assert not tb.get("interrupt")
    await tb.low()
    tb.set(core_done=1)
    await tb.low()
    tb.set(core_done=0)
    await tb.low()
    assert tb.get("interrupt")
    assert await master.read_dword(Register.STATUS) & 0b11 == 0b10
