"""The driver against registers that a test sets: what it writes, refuses, and says of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from vdla.config import PYNQ_Z1
from vdla.config import TINY as TINY_AXI3
from vdla.errors import DeviceError, ProgramError
from vdla.isa import Finish, Gemm, Load, MemoryType, Store, encode
from vdla.program import Program
from vdla.registers import BASES, COUNTERS, IDENTITY, ErrorCause, ErrorModule, Register
from vdla.runtime.driver import Driver
from vdla.runtime.instructions import Instructions

TINY = TINY_AXI3.replace(name="tiny", axi_version=4)  # whose addresses have more than 32 bits
PROGRAM = Program.from_instructions(
    [
        Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=0, x_size=1),
        Load(memory_type=MemoryType.INP, sram_base=0, dram_base=16, x_size=4, push_next=True),
        Gemm(uop_begin=0, uop_end=1, pop_prev=True, push_next=True),
        Load(memory_type=MemoryType.INP, sram_base=4, dram_base=16, x_size=4, pop_next=True),
        Store(sram_base=0, dram_base=0, x_size=1, pop_prev=True, push_prev=True),
        Finish(pop_next=True),
    ],
    TINY,
)
RUNNING, DONE, ERROR, RESETTING = 1, 2, 4, 16


class Registers:
    """A register file, with memory beside it; `on_start` plays the machine."""

    def __init__(self) -> None:
        self.words = {
            int(Register.ID): IDENTITY,
            int(Register.VERSION): 1 << 16,
            int(Register.CAPABILITY): 15,
            int(Register.CONFIG_HASH): TINY.hash & 0xFFFFFFFF,
            int(Register.CONFIG_HASH) + 4: TINY.hash >> 32,
        }
        self.written: list[tuple[int, int]] = []
        self.memory = np.zeros(4096, np.uint8)
        self.allocated: list[int] = []
        self.freed: list[int] = []
        self.on_start: Callable[[], None] = lambda: self.set(Register.STATUS, DONE)

    def set(self, register: Register, value: int) -> None:
        for word in range(register.words):
            self.words[register + 4 * word] = value >> 32 * word & 0xFFFFFFFF

    def read(self, offset: int) -> int:
        return self.words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        assert 0 <= value < 1 << 32
        self.written.append((offset, value))
        self.words[offset] = value
        if offset == Register.CONTROL and value & 1:
            self.on_start()
        elif offset == Register.CONTROL and value & 2:
            self.words[Register.STATUS] = self.read(Register.STATUS) & RESETTING

    def allocate(self, nbytes: int, align: int = 4096) -> int:
        self.allocated.append(nbytes)
        return 0x1_0000_0000 * len(self.allocated)

    def free(self, address: int) -> None:
        self.freed.append(address)


class Space:
    """The memory's half of `Registers`, whose write means something else."""

    def __init__(self, registers: Registers) -> None:
        self.registers = registers
        self.allocate = registers.allocate
        self.free = registers.free

    def write(self, address: int, data: np.ndarray) -> None:
        self.registers.memory[: len(data)] = data


@pytest.fixture
def registers() -> Registers:
    return Registers()


def driver(registers: Registers) -> Driver:
    return Driver(registers, Space(registers))


def stopped(registers: Registers, cause: ErrorCause, module: ErrorModule, index: int) -> Driver:
    """Run the program on a machine that stops with an error in cycle 99."""
    registers.on_start = lambda: registers.set(Register.STATUS, ERROR)
    registers.set(Register.ERROR, module << 8 | cause)
    registers.set(Register.ERROR_INDEX, index)
    registers.set(Register.CYCLES, 100)
    made = driver(registers)
    made.start(PROGRAM)
    return made


@pytest.mark.parametrize(
    ("register", "value", "message"),
    [
        (
            Register.ID,
            0xFFFFFFFF,
            "An accelerator's ID register must read 0x414c4456, not 0xffffffff: is its bitstream "
            "loaded, and is this its address?",
        ),
        (
            Register.VERSION,
            2 << 16 | 5,
            "An accelerator's interface must be version 1, which this driver speaks, not 2.5: load "
            "a bitstream of this version of vdla.",
        ),
        (
            Register.CAPABILITY,
            0b1011,
            "An accelerator must have the capabilities pad_value, overwrite, rq, acc_8bit, and "
            "this one lacks rq (its register reads 0xb): load a bitstream of this version of vdla.",
        ),
    ],
)
def test_what_is_no_accelerator_of_ours_is_refused(
    registers: Registers, register: Register, value: int, message: str
) -> None:
    registers.set(register, value)
    with pytest.raises(DeviceError) as caught:
        driver(registers)
    assert str(caught.value) == message
    assert registers.written == []


def test_another_configuration_is_refused_by_both_names(registers: Registers) -> None:
    program = Program(PYNQ_Z1, encode([Finish()], PYNQ_Z1))
    with pytest.raises(DeviceError) as caught:
        driver(registers).start(program)
    assert str(caught.value) == (
        f"A program must be for the accelerator's configuration, unknown (hash {TINY.hash:016x}), "
        f"not for pynq-z1 (hash {PYNQ_Z1.hash:016x}): compile it again, or load the bitstream of "
        "pynq-z1."
    )
    assert registers.written == []


def test_a_run_is_set_up_before_it_starts(registers: Registers) -> None:
    made = driver(registers)
    made.start(PROGRAM, base=0x2_0000_1000, cycle_limit=500)
    made.wait()
    assert registers.written[-1] == (Register.CONTROL, 1)  # start; no interrupt to enable
    assert made.read(Register.INSTRUCTION_BASE) == 0x1_0000_0000
    assert made.read(Register.INSTRUCTION_COUNT) == 6
    assert made.read(Register.CYCLE_LIMIT) == 500
    assert {made.read(register) for register in BASES.values()} == {0x2_0000_1000}
    assert registers.memory[: 6 * 16].tobytes() == PROGRAM.instructions.astype("<u8").tobytes()


def test_instructions_are_placed_once(registers: Registers) -> None:
    made = driver(registers)
    for _ in range(3):
        made.start(PROGRAM)
    made.start(Program(TINY, encode([Finish()], TINY)))
    assert registers.allocated == [96]


def test_an_interrupt_is_waited_for(registers: Registers) -> None:
    registers.on_start = lambda: registers.set(Register.STATUS, RUNNING)
    waits: list[float] = []

    def interrupt(timeout_s: float) -> bool:
        waits.append(timeout_s)
        registers.set(Register.STATUS, DONE)
        return True

    made = Driver(registers, Space(registers), interrupt)
    made.start(PROGRAM)
    assert registers.written[-1] == (Register.CONTROL, 0b101)
    made.wait(timeout_s=5)
    assert len(waits) == 1
    assert 4 < waits[0] <= 5


def test_a_program_that_does_not_end_is_dumped_and_abandoned(registers: Registers) -> None:
    def hang() -> None:
        registers.set(Register.STATUS, RUNNING)
        registers.set(Register.CYCLES, 7 << 32 | 5)
        bits = [(c.module, c.event) == ("load", "pop_next") for c in COUNTERS]
        registers.set(Register.STALL, sum(1 << bit for bit, on in enumerate(bits) if on))
        registers.set(Register.LOAD_INSTRUCTIONS, 1)

    registers.on_start = hang
    made = driver(registers)
    made.start(PROGRAM, base=0x40)
    with pytest.raises(DeviceError) as caught:
        made.wait(timeout_s=0.01)
    first, *dumped = str(caught.value).splitlines()
    assert first == (
        "A program must end within the timeout of 0.01 s, and this one has not after 30064771077 "
        "cycles: load waits for a token of compute->load before instruction 3 "
        "(load.inp sram=4 dram=0x10 x=4 ; pop_next). It was abandoned; give it longer if it needs "
        "longer. The registers were:"
    )
    assert "  status 0x00000001 (running)" in dumped
    assert "  wgt_base 0x00000040" in dumped
    assert "  cycles 30064771077" in dumped
    assert "  load_instructions 1" in dumped
    assert not any("error" in line for line in dumped)
    assert registers.written[-1] == (Register.CONTROL, 2)
    registers.on_start = lambda: registers.set(Register.STATUS, DONE)
    made.start(PROGRAM)
    made.wait()


def test_a_wait_is_a_coroutine_too(registers: Registers) -> None:
    registers.on_start = lambda: registers.set(Register.STATUS, RUNNING)
    made = driver(registers)

    async def others() -> None:
        await asyncio.sleep(0.01)
        registers.set(Register.STATUS, DONE)

    async def both() -> None:
        made.start(PROGRAM)
        await asyncio.gather(made.wait_async(), others())
        made.start(PROGRAM)
        with pytest.raises(DeviceError, match=r"timeout of 0\.01 s"):
            await made.wait_async(timeout_s=0.01)
        made.start(PROGRAM)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(made.wait_async(), 0.01)

    asyncio.run(both())
    assert registers.written[-1] == (Register.CONTROL, 2)  # what is not waited for is abandoned


def test_an_interrupt_can_be_awaited(registers: Registers) -> None:
    registers.on_start = lambda: registers.set(Register.STATUS, RUNNING)

    async def interrupt(timeout_s: float) -> bool:
        registers.set(Register.STATUS, DONE)
        return True

    made = Driver(registers, Space(registers), lambda timeout_s: True, interrupt)
    made.start(PROGRAM)
    asyncio.run(made.wait_async())


def test_what_a_killed_process_left_running_is_reset(registers: Registers) -> None:
    registers.set(Register.STATUS, RUNNING)
    made = driver(registers)
    made.start(PROGRAM)
    assert registers.written[0] == (Register.CONTROL, 2)
    made.wait()


def test_a_board_that_goes_away_is_said_to(registers: Registers) -> None:
    made = driver(registers)
    registers.on_start = lambda: registers.set(Register.STATUS, 0xFFFFFFFF)
    made.start(PROGRAM)
    with pytest.raises(DeviceError) as caught:
        made.wait()
    assert str(caught.value) == (
        "An accelerator's status must have nothing but its 6 low bits set, not read 0xffffffff: it "
        "does not answer any more. Is the board on and connected, and is its overlay still loaded? "
        "Then open the device again."
    )

    def fail(offset: int) -> int:
        raise OSError("Bus error")

    registers.read = fail  # type: ignore[method-assign]
    with pytest.raises(DeviceError) as caught:
        made.wait()
    assert str(caught.value) == (
        "An accelerator must answer, and reading STATUS failed (OSError: Bus error): is the board "
        "on and connected? Then open the device again."
    )


def test_a_run_that_someone_else_resets_is_not_waited_for(registers: Registers) -> None:
    registers.on_start = lambda: registers.set(Register.STATUS, 32)
    made = driver(registers)
    made.start(PROGRAM)
    with pytest.raises(DeviceError, match=r"says neither \(0x00000020\): someone else has reset"):
        made.wait()


def test_another_overlay_under_it_is_seen(registers: Registers) -> None:
    made = driver(registers)
    made.check()
    registers.set(Register.CONFIG_HASH, PYNQ_Z1.hash)
    with pytest.raises(DeviceError, match=f"hash {TINY.hash:016x}, and .* {PYNQ_Z1.hash:016x}"):
        made.check()


def test_addresses_past_the_bus_are_refused(registers: Registers) -> None:
    made = driver(registers)
    made.start(PROGRAM, base=(1 << 40) - 4096)
    with pytest.raises(DeviceError) as caught:
        made.start(PROGRAM, base=1 << 40)
    assert str(caught.value) == (
        "Addresses must have at most the 40 bits of tiny's bus, and 0x10000000000 has more: "
        "reserve contiguous memory lower down."
    )


def test_programs_are_kept_while_there_is_room(registers: Registers) -> None:
    made = Driver(registers, Space(registers), programs=2)
    others = [Program(TINY, encode([Finish()] * n, TINY)) for n in (1, 2, 3)]
    made.start(others[1])
    made.start(others[0])
    made.start(others[1])
    assert registers.allocated == [32, 16]
    made.start(others[2])  # larger than the one used longest ago, whose room is given back
    assert registers.allocated == [32, 16, 48]
    assert registers.freed == [0x2_0000_0000]
    made.start(others[0])
    assert registers.allocated == [32, 16, 48]  # in the room of others[1]
    assert made.read(Register.INSTRUCTION_BASE) == 0x1_0000_0000


def test_an_error_names_module_cause_instruction_and_listing(registers: Registers) -> None:
    made = stopped(registers, ErrorCause.INDEX_PAST_BUFFER, ErrorModule.LOAD, 1)
    with pytest.raises(ProgramError) as caught:
        made.wait()
    assert str(caught.value) == (
        "The machine stopped at an index past its buffer: load, instruction 1 "
        "(load.inp sram=0 dram=0x10 x=4 ; push_next)."
    )


def test_an_error_of_the_bus_is_the_devices(registers: Registers) -> None:
    made = stopped(registers, ErrorCause.AXI_WRITE, ErrorModule.STORE, 4)
    with pytest.raises(DeviceError, match=r"an error response to a write: store, instruction 4 "):
        made.wait()


def test_an_illegal_instruction_is_shown_as_bits(registers: Registers) -> None:
    words = PROGRAM.instructions.copy()
    words[2] = [7, 0xAB]
    made = stopped(registers, ErrorCause.ILLEGAL_OPCODE, ErrorModule.FETCH, 2)
    made.start(Program(TINY, words))
    with pytest.raises(ProgramError) as caught:
        made.wait()
    assert str(caught.value) == (
        "The machine stopped at an opcode of 5 to 7: fetch, instruction 2 "
        "(0x00000000000000ab0000000000000007)."
    )


def test_the_end_of_the_instructions_has_no_listing(registers: Registers) -> None:
    made = stopped(registers, ErrorCause.NO_FINISH, ErrorModule.FETCH, 6)
    with pytest.raises(ProgramError, match=r"without a FINISH: fetch, instruction 6\.$"):
        made.wait()


def test_a_cycle_limit_says_who_waits_for_what(registers: Registers) -> None:
    """Load has finished one instruction and waits for a token; store writes into a full queue."""
    stall = {("load", "pop_next"), ("compute", "busy"), ("store", "push"), ("fetch", "full")}
    made = stopped(registers, ErrorCause.CYCLE_LIMIT, ErrorModule.CONTROL, 0)
    bits = [(c.module, c.event) in stall for c in COUNTERS]
    registers.set(Register.STALL, sum(1 << bit for bit, on in enumerate(bits) if on))
    registers.set(Register.LOAD_INSTRUCTIONS, 1)
    with pytest.raises(ProgramError) as caught:
        made.wait()
    assert str(caught.value) == (
        "A program must end within its limit of 100 cycles: load waits for a token of "
        "compute->load before instruction 3 (load.inp sram=4 dram=0x10 x=4 ; pop_next); store "
        "waits for room in a token queue after instruction 4 "
        "(store sram=0 dram=0x0 x=1 ; pop_prev push_prev)."
    )


def test_a_soft_reset_waits_for_the_bus(registers: Registers) -> None:
    made = driver(registers)
    made.soft_reset()
    assert registers.written == [(Register.CONTROL, 2)]
    registers.set(Register.STATUS, RESETTING)
    with pytest.raises(DeviceError, match="must answer every burst within 0.01 s of a reset"):
        made.soft_reset(timeout_s=0.01)


def test_a_counter_that_carries_while_it_is_read_is_read_again() -> None:
    class Carrying(Registers):
        reads = 0

        def read(self, offset: int) -> int:
            if offset in (Register.CYCLES, Register.CYCLES + 4):
                self.reads += 1
                now = 0xFFFFFFFF if self.reads == 1 else 0x100000000
                return now >> 32 if offset & 4 else now & 0xFFFFFFFF
            return super().read(offset)

    assert driver(Carrying()).cycles == 1 << 32


def test_counters_are_named_by_module_and_event(registers: Registers) -> None:
    for value, counter in enumerate(COUNTERS):
        registers.set(counter.register, value + (1 << 33))
    counters = driver(registers).counters()
    assert list(counters) == ["load", "compute", "store", "fetch"]
    assert counters["store"]["push"] == (1 << 33) + 14
    assert counters["fetch"] == {"memory": (1 << 33) + 16, "full": (1 << 33) + 17}


def test_a_program_whose_writing_was_interrupted_is_written_again() -> None:
    """Its place held another program, of which it left neither."""
    registers = Registers()
    space = Space(registers)
    kept = Instructions(space, most=1)
    first = Program.from_instructions([Finish()], TINY)
    second = Program.from_instructions([Finish()], TINY)
    kept.place(first)
    write, space.write = space.write, interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        kept.place(second)
    space.write = write  # type: ignore[method-assign]
    registers.memory[:] = 0
    kept.place(first)
    assert registers.memory.any()


def interrupted(address: int, data: np.ndarray) -> None:
    raise KeyboardInterrupt
