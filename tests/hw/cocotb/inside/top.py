"""Programs end to end: waits, alignments, errors on each channel, soft reset, registers, stops."""

from __future__ import annotations

from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotbext.axi import AxiResp

from tests.hw.cocotb.inside.system import CODE, ENABLE, SOFT_RESET, START, System
from tests.hw.faults.programs import arithmetic, movement, product
from tests.hw.stops import ILLEGAL, STOPS
from tests.hw.transfers import LOADED, transfers
from vdla.config import TINY
from vdla.isa import MemoryType, Store, decode, element_bytes
from vdla.registers import BASES, ErrorCause, ErrorModule, Register
from vdla.sim import functional

WAITS = 0.4
BASE = 0x248
"""Where a base register moves a program to: elements of two beats then lie across pages' ends."""


@cocotb.test()
@cocotb.parametrize(waits=[0.0, WAITS])
async def programs(dut: Any, waits: float) -> None:
    system = System(dut, waits)
    await system.start()
    for case in (movement(), product(), arithmetic()):
        for base in (0, BASE):
            await system.run(case, base)


@cocotb.test()
@cocotb.parametrize(waits=[0.0, WAITS], kind=[kind.name for kind in LOADED])
async def every_alignment_and_length(dut: Any, waits: float, kind: str) -> None:
    system = System(dut, waits)
    await system.start()
    await system.run(transfers(MemoryType[kind]))


@cocotb.test()
async def registers_are_read_and_locked_while_it_runs(dut: Any) -> None:
    system = System(dut, WAITS)
    await system.start()
    case, master, before, seen = movement(), system.master, -1, 0
    locked = (*BASES.values(), Register.INSTRUCTION_BASE, Register.INSTRUCTION_COUNT)
    await system.launch(case.program, case.fresh())
    while not dut.interrupt.value:
        now = await master.read_dword(Register.CYCLES)
        assert now > before or dut.interrupt.value
        answer = await master.write(locked[seen % len(locked)], b"\xff\xff\xff\xff")
        assert answer.resp == AxiResp.SLVERR or dut.interrupt.value
        before, seen = now, seen + 1
    assert seen > len(locked)
    want = case.fresh()
    functional.run(case.program, want)
    assert system.memory.bytes[: len(want)].tobytes() == want.tobytes()
    assert (await master.read(0xFFC, 4)).resp == AxiResp.SLVERR


@cocotb.test()
async def the_interrupt_is_enabled_and_cleared(dut: Any) -> None:
    system = System(dut)
    await system.start()
    case, master = product(), system.master
    await system.launch(case.program, case.fresh())
    await master.write_dword(Register.CONTROL, 0)
    while "done" not in await system.status():
        assert not dut.interrupt.value
    await system.cycles(10)
    assert not dut.interrupt.value
    await master.write_dword(Register.CONTROL, ENABLE)
    await system.interrupted(10)
    await master.write_dword(Register.STATUS, Register.STATUS.bits("done").mask)
    assert await system.status() == {"idle"}
    assert not dut.interrupt.value


@cocotb.test()
@cocotb.parametrize(waits=[0.0, WAITS])
async def soft_reset_in_mid_flight(dut: Any, waits: float) -> None:
    """An abandoned run has written nothing but some of its outputs; the next run is clean."""
    system, rng = System(dut, waits), Random(cocotb.RANDOM_SEED)
    await system.start()
    case = movement()
    for cycles in (0, 1, 2, *(rng.randrange(3, 1200 if waits else 600) for _ in range(20))):
        await system.launch(case.program, case.fresh())
        before = system.memory.bytes.copy()
        after = before.copy()
        functional.run(case.program, after)
        await system.cycles(cycles)
        await system.master.write_dword(Register.CONTROL, SOFT_RESET | ENABLE)
        await system.quiet()
        now = system.memory.bytes
        assert np.all((now == before) | (now == after))
        await system.run(product())


@cocotb.test()
async def a_start_need_not_wait_for_a_reset(dut: Any) -> None:
    system, rng = System(dut, WAITS), Random(cocotb.RANDOM_SEED)
    await system.start()
    case = movement()
    for _ in range(8):
        await system.launch(case.program, case.fresh())
        await system.cycles(rng.randrange(600))
        await system.master.write_dword(Register.CONTROL, SOFT_RESET)
        await system.master.write_dword(Register.CONTROL, START | ENABLE)
        await system.interrupted()
        want = case.fresh()
        functional.run(case.program, want)
        assert system.memory.bytes[: len(want)].tobytes() == want.tobytes()


@cocotb.test()
@cocotb.parametrize(waits=[0.0, WAITS])
async def illegal_instructions(dut: Any, waits: float) -> None:
    """Each stop has its cause, its module and its instruction; now and then a clean run follows."""
    system = System(dut, waits)
    await system.start()
    for number, (name, illegal) in enumerate(ILLEGAL.items()):
        module, cause = STOPS[name]
        system.memory.refused = range(len(illegal.dram), CODE)
        await system.launch(illegal.program, illegal.dram)
        await system.fails(module, cause, illegal.index)
        if number % 4 == 0:
            system.memory.refused = range(0)
            await system.run(product())


def _first_bytes() -> dict[int, tuple[ErrorModule, ErrorCause, int]]:
    """Who meets the refusal of an address: fetch, load, compute and store, by that address."""
    case, found = product(), {}
    instructions = decode(case.program.instructions, TINY)
    modules = {MemoryType.INP: ErrorModule.LOAD, MemoryType.WGT: ErrorModule.LOAD}
    for index, i in enumerate(instructions):
        found[CODE + 16 * index] = (ErrorModule.FETCH, ErrorCause.AXI_READ, index)
        kind = getattr(i, "memory_type", None)
        if kind is None:
            continue
        place = i.dram_base * element_bytes(kind, TINY)
        if isinstance(i, Store):
            found[place] = (ErrorModule.STORE, ErrorCause.AXI_WRITE, index)
        else:
            module = modules.get(kind, ErrorModule.COMPUTE)
            found[place] = (module, ErrorCause.AXI_READ, index)
    return found


@cocotb.test()
@cocotb.parametrize(waits=[0.0, WAITS])
async def error_responses(dut: Any, waits: float) -> None:
    """To reads of fetch, load and compute, and to writes of store; the next run is clean."""
    system = System(dut, waits)
    await system.start()
    places = _first_bytes()
    assert {module for module, _, _ in places.values()} == set(ErrorModule) - {ErrorModule.CONTROL}
    for address, (module, cause, index) in places.items():
        case = product()
        system.memory.refused = range(address, address + 1)
        await system.launch(case.program, case.fresh())
        await system.fails(module, cause, index)
        system.memory.refused = range(0)
        await system.run(product())


@cocotb.test()
@cocotb.parametrize(waits=[0.0, WAITS])
async def the_cycle_limit(dut: Any, waits: float) -> None:
    system = System(dut, waits)
    await system.start()
    case = movement()
    for limit in (1, 33, 100, 300):
        await system.master.write_qword(Register.CYCLE_LIMIT, limit)
        await system.launch(case.program, case.fresh())
        await system.fails(ErrorModule.CONTROL, ErrorCause.CYCLE_LIMIT, None)
        assert await system.master.read_dword(Register.CYCLES) == limit
        await system.master.write_qword(Register.CYCLE_LIMIT, 0)
        await system.run(product())
