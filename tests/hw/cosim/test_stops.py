"""Every error stop on the RTL: named with its instruction, interrupted, and cleanly followed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builder import Builder, Case
from tests.hw.cosim.compare import Expected, expect, machine_of, run, same_to_the_cycle
from tests.hw.stops import ILLEGAL, STOPS
from tests.illegal import BAD_ENCODINGS, Illegal
from tests.programs import PROGRAMS, gemm_blocks
from vdla.config import TINY
from vdla.errors import DeviceError, ProgramError
from vdla.isa import (
    Finish,
    Gemm,
    Load,
    MemoryType,
    ModuleName,
    Store,
    decode,
    element_bytes,
    encode,
    module_of,
)
from vdla.program import Program
from vdla.registers import ErrorCause, ErrorModule, Register
from vdla.runtime.rtl import MemorySettings
from vdla.runtime.rtl.run import RtlMachine

pytestmark = pytest.mark.rtl

C, M = ErrorCause, ErrorModule

BUS = (C.AXI_READ, C.AXI_WRITE)


@pytest.fixture
def machine() -> RtlMachine:
    return machine_of(TINY)


@pytest.fixture(scope="module")
def clean() -> Expected:
    """A program of every module, for the run after a stop."""
    return expect(gemm_blocks(TINY, 2))


def stopped_at(
    machine: RtlMachine, module: ErrorModule, cause: ErrorCause, index: int | None
) -> None:
    """Hold the registers to a stop; the interrupt is what ended the run."""
    status, fields = machine.driver.read(Register.STATUS), Register.STATUS
    assert fields.bits("error").of(status)
    assert fields.bits("interrupt").of(status)
    assert not fields.bits("done").of(status)
    assert not fields.bits("running").of(status)
    fault = machine.driver.fault()
    assert (fault.module, fault.cause) == (module, cause)
    assert index is None or fault.index == index


def case_of(illegal: Illegal) -> Case:
    return Case("illegal", illegal.program, illegal.dram, ())


def test_every_illegal_program_has_its_stop() -> None:
    assert STOPS.keys() == ILLEGAL.keys()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_program(machine: RtlMachine, clean: Expected, name: str, seed: int) -> None:
    illegal = ILLEGAL[name]
    module, cause = STOPS[name]
    error = DeviceError if cause in BUS else ProgramError
    with pytest.raises(error, match=f"instruction {illegal.index} "):
        run(machine, case_of(illegal), seed)
    stopped_at(machine, module, cause, illegal.index)
    same_to_the_cycle(machine, clean)


def _touched(program: Program, base: int = 0) -> dict[int, list[int]]:
    """The instructions that move each beat of memory, by its address."""
    beat, moved = TINY.axi_bytes, {}
    for index, i in enumerate(decode(program.instructions, TINY)):
        if not isinstance(i, (Load, Store)):
            continue
        size = element_bytes(i.memory_type, TINY)
        for row in range(i.y_size if i.x_size else 0):
            first = base + (i.dram_base + row * i.x_stride) * size
            for address in range(first // beat * beat, first + i.x_size * size, beat):
                moved.setdefault(address, []).append(index)
    return moved


TOUCHED = _touched(gemm_blocks(TINY, 2).program)
FIRST_OF_INSTRUCTION = {min(who): address for address, who in TOUCHED.items()}
"""Of each instruction that is the first to move some beat, such a beat."""


@pytest.mark.parametrize("response", [2, 3], ids=["slverr", "decerr"])
@pytest.mark.parametrize("index", FIRST_OF_INSTRUCTION)
def test_the_bus_refuses_data(
    machine: RtlMachine, clean: Expected, index: int, response: int
) -> None:
    case = clean.case
    instruction = decode(case.program.instructions, TINY)[index]
    address = FIRST_OF_INSTRUCTION[index]
    settings = MemorySettings.of(TINY, errors=(address + 3, address + 4))
    machine.simulation.configure(
        MemorySettings(**{**settings.__dict__, "error_response": response})
    )
    with pytest.raises(DeviceError, match="The machine stopped at an error response"):
        machine.run(case.program, case.fresh())
    module = M[module_of(instruction).name]
    cause = C.AXI_WRITE if isinstance(instruction, Store) else C.AXI_READ
    stopped_at(machine, module, cause, index)
    same_to_the_cycle(machine, clean)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("half", [0, 8])
@pytest.mark.parametrize("index", [0, 1, 7, 8, 20])
def test_the_bus_refuses_an_instruction(
    machine: RtlMachine, clean: Expected, index: int, half: int, seed: int
) -> None:
    case = clean.case
    machine.simulation.configure(MemorySettings.of(TINY))
    machine.run(case.program, case.fresh())  # places the instructions
    first = machine.driver.read(Register.INSTRUCTION_BASE) + 16 * index + half
    machine.simulation.configure(MemorySettings.of(TINY, seed=seed, errors=(first, first + 1)))
    with pytest.raises(DeviceError, match=f"fetch, instruction {index} "):
        machine.run(case.program, case.fresh())
    stopped_at(machine, M.FETCH, C.AXI_READ, index)
    same_to_the_cycle(machine, clean)


def test_an_instruction_behind_a_full_queue_is_refused_by_its_own_index(clean: Expected) -> None:
    """Fetch has read far ahead of what it may dispatch when the error comes."""
    config = TINY.replace(token_queue_depth=2, command_queue_depth=2)
    machine, b = machine_of(config), Builder(config)
    source = b.place(MemoryType.INP, np.zeros((64, 4), np.int8))
    for _ in range(12):
        b.load(MemoryType.INP, 0, source, 64)
    b.add(Finish())
    case = b.case("queue")
    machine.simulation.configure(MemorySettings.of(config))
    machine.run(case.program, case.fresh())
    first = machine.driver.read(Register.INSTRUCTION_BASE) + 16 * 9
    machine.simulation.configure(MemorySettings.of(config, errors=(first, first + 1)))
    with pytest.raises(DeviceError, match="fetch, instruction 9 "):
        machine.run(case.program, case.fresh())
    stopped_at(machine, M.FETCH, C.AXI_READ, 9)


def test_the_cycle_limit(machine: RtlMachine, clean: Expected) -> None:
    cycles = clean.timing.cycles
    for limit in (1, 40, cycles // 2, cycles - 1):
        with pytest.raises(ProgramError, match=f"must end within its limit of {limit} cycles"):
            run(machine, clean.case, cycle_limit=limit)
        stopped_at(machine, M.CONTROL, C.CYCLE_LIMIT, None)
        assert machine.driver.cycles == limit
        same_to_the_cycle(machine, clean)
    result, _ = run(machine, clean.case, cycle_limit=cycles)
    assert result.cycles == cycles


def test_a_deadlock_ends_at_the_limit_and_says_who_waits(
    machine: RtlMachine, clean: Expected
) -> None:
    b = Builder(TINY)
    b.uops([(0, 0, 0)])
    b.add(Gemm(uop_begin=0, uop_end=1, reset=True, pop_prev=True))
    b.add(Finish())
    wait = "compute waits for a token of load->compute before instruction 1 "
    with pytest.raises(ProgramError, match=wait):
        run(machine, b.case("deadlock"), cycle_limit=500)
    stopped_at(machine, M.CONTROL, C.CYCLE_LIMIT, None)
    same_to_the_cycle(machine, clean)


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_a_program_without_finish(machine: RtlMachine, clean: Expected, count: int) -> None:
    """All of it is executed first."""
    b = Builder(TINY)
    source = b.place(MemoryType.ACC, np.ones((40, 4), np.int32))
    for _ in range(count):
        b.load(MemoryType.ACC, 0, source, 40)
    words = encode(b.instructions, TINY)
    case = b.case("unfinished")
    program = Program(TINY, words)
    unfinished = Case("unfinished", program, case.dram, ())
    with pytest.raises(ProgramError, match="the end of the instructions, without a FINISH"):
        run(machine, unfinished, cycle_limit=10_000)
    stopped_at(machine, M.FETCH, C.NO_FINISH, count)
    assert machine.driver.counters()["compute"]["instructions"] == count
    same_to_the_cycle(machine, clean)


def test_a_program_of_no_instructions(machine: RtlMachine, clean: Expected) -> None:
    nothing = Program(TINY, np.zeros((0, 2), np.uint64))
    with pytest.raises(ProgramError, match="the end of the instructions, without a FINISH"):
        machine.run(nothing, np.zeros(64, np.uint8), cycle_limit=1000)
    stopped_at(machine, M.FETCH, C.NO_FINISH, 0)
    same_to_the_cycle(machine, clean)


@pytest.mark.parametrize("latency", [1, TINY.dram_latency_cycles])
def test_what_comes_after_finish_is_not_executed(machine: RtlMachine, latency: int) -> None:
    config = TINY.replace(dram_latency_cycles=latency)
    case = PROGRAMS["load_store"](config)
    bad = BAD_ENCODINGS["opcode_7"].program.instructions[1:2]
    words = np.concatenate([case.program.instructions, np.repeat(bad, 100, axis=0)])
    same_to_the_cycle(
        machine, expect(Case("tail", Program(config, words), case.dram, case.expected))
    )


def test_modules_are_coded_as_they_are_named() -> None:
    assert {m.name for m in ModuleName} <= {m.name for m in M}
