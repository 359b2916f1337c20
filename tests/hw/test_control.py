"""The control port: AXI4-Lite in every order, the life of a run, counters and errors."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from vdla.config import TINY
from vdla.isa import MemoryType
from vdla.registers import BASES, COUNTERS, IDENTITY, ErrorCause, ErrorModule, Register

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

from amaranth.sim import Simulator

from vdla.gateware.control import Control

OKAY, SLVERR = 0, 2
START, SOFT_RESET, INTERRUPT_ENABLE = 1, 2, 4
RUNNING, DONE, ERROR, INTERRUPT, RESETTING, IDLE = (1 << bit for bit in range(6))


class Bench:
    """A control port with a master on its bus; the test plays the core."""

    def __init__(self, ctx: Any, dut: Control) -> None:
        self.ctx, self.dut = ctx, dut
        self.axi, self.core = dut.s_axi, dut.core

    async def tick(self, cycles: int = 1) -> None:
        for _ in range(cycles):
            await self.ctx.tick()

    async def _send(self, channel: str, delay: int, **payload: int) -> None:
        ctx, axi = self.ctx, self.axi
        await self.tick(delay)
        for name, value in payload.items():
            ctx.set(getattr(axi, name), value)
        ctx.set(getattr(axi, f"{channel}valid"), 1)
        await ctx.tick().until(getattr(axi, f"{channel}ready"))
        ctx.set(getattr(axi, f"{channel}valid"), 0)

    async def _take(self, channel: str, delay: int, *names: str) -> tuple[int, ...]:
        ctx, axi = self.ctx, self.axi
        while not ctx.get(getattr(axi, f"{channel}valid")):
            await ctx.tick()
        first = tuple(ctx.get(getattr(axi, name)) for name in names)
        await self.tick(delay)
        assert ctx.get(getattr(axi, f"{channel}valid"))
        assert tuple(ctx.get(getattr(axi, name)) for name in names) == first
        ctx.set(getattr(axi, f"{channel}ready"), 1)
        await ctx.tick()
        ctx.set(getattr(axi, f"{channel}ready"), 0)
        return first

    async def read(self, address: int, expect: int = OKAY, wait: int = 0) -> int:
        await self._send("ar", 0, araddr=address)
        data, response = await self._take("r", wait, "rdata", "rresp")
        assert response == expect
        return data

    async def read_wide(self, register: Register) -> int:
        return await self.read(register) | await self.read(register + 4) << 32

    async def write(
        self,
        address: int,
        data: int,
        strobe: int = 15,
        expect: int = OKAY,
        data_first: bool = False,
    ) -> None:
        sends = [("aw", {"awaddr": address}), ("w", {"wdata": data, "wstrb": strobe})]
        for channel, payload in reversed(sends) if data_first else sends:
            await self._send(channel, 0, **payload)
        assert await self._take("b", 0, "bresp") == (expect,)

    async def start(self, control: int = START | INTERRUPT_ENABLE) -> None:
        """Start a run; return in its cycle 0."""
        self.ctx.set(self.core.bus_idle, 1)
        await self.write(Register.CONTROL, control)
        while not self.ctx.get(self.core.start):
            await self.ctx.tick()


def run(body: Callable[[Bench], Any]) -> None:
    dut = Control(TINY)
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)

    async def testbench(ctx: Any) -> None:
        await body(Bench(ctx, dut))

    simulator.add_testbench(testbench)
    simulator.run()


def test_the_machine_says_what_it_is() -> None:
    async def body(bench: Bench) -> None:
        assert await bench.read(Register.ID) == IDENTITY
        assert await bench.read(Register.VERSION) == 0x0001_0000
        assert await bench.read_wide(Register.CONFIG_HASH) == TINY.hash
        assert await bench.read(Register.CAPABILITY) == 0b1111
        assert await bench.read(Register.STATUS) == 0

    run(body)


@pytest.mark.parametrize("data_first", [False, True])
def test_bases_are_written_and_read_a_byte_at_a_time(data_first: bool) -> None:
    async def body(bench: Bench) -> None:
        value = {kind: 0x1122334455667788 + 0x0101010101010101 * kind for kind in MemoryType}
        for kind, register in BASES.items():
            for byte in range(8):
                shift = 8 * (byte % 4)
                # A byte that the strobe leaves out must not be written.
                word = (value[kind] >> 8 * byte & 0xFF) << shift | 0xA5A5A5A5 & ~(0xFF << shift)
                await bench.write(
                    register + byte // 4 * 4, word, 1 << byte % 4, data_first=data_first
                )
        for kind, register in BASES.items():
            assert await bench.read_wide(register) == value[kind]
            assert bench.ctx.get(bench.core.base[kind.name.lower()]) == value[kind]

    run(body)


def test_address_and_data_may_come_in_any_order_and_the_response_may_wait() -> None:
    """Writes with random waits on all five channels, while reads run beside them."""

    dut = Control(TINY)
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    numbers = Random(9)
    values = [numbers.getrandbits(32) for _ in range(40)]

    def channel(name: str, payload: str, items: list[int], seed: int) -> Any:
        async def process(ctx: Any) -> None:
            bench, random = Bench(ctx, dut), Random(seed)
            for item in items:
                extra = {"wstrb": 15} if name == "w" else {}
                await bench._send(name, random.choice([0, 0, 1, 5]), **{payload: item}, **extra)

        return process

    async def responses(ctx: Any) -> None:
        random = Random(3)
        for _ in values:
            assert await Bench(ctx, dut)._take("b", random.choice([0, 1, 7]), "bresp") == (OKAY,)

    async def reads(ctx: Any) -> None:
        bench, random = Bench(ctx, dut), Random(4)
        seen = [0]
        while seen[-1] != values[-1]:
            seen.append(await bench.read(Register.UOP_BASE, wait=random.choice([0, 2])))
        assert set(seen) <= {0, *values}
        assert len(set(seen)) > 5

    simulator.add_testbench(channel("aw", "awaddr", [Register.UOP_BASE] * len(values), 1))
    simulator.add_testbench(channel("w", "wdata", values, 2))
    simulator.add_testbench(responses)
    simulator.add_testbench(reads)
    simulator.run()


def test_an_address_without_a_register_is_refused() -> None:
    async def body(bench: Bench) -> None:
        words = {int(r) + 4 * w for r in Register for w in range(r.words)}
        for address in range(0, 0x1C0, 4):
            response = OKAY if address in words else SLVERR
            await bench.read(address, response)
            await bench.write(address, 0, expect=response)
        assert await bench.read(0xFFC, SLVERR) == 0

    run(body)


def test_what_can_only_be_read_stays() -> None:
    async def body(bench: Bench) -> None:
        for register in (Register.ID, Register.CONFIG_HASH, Register.CYCLES, Register.ERROR):
            before = await bench.read(register)
            await bench.write(register, ~before & 0xFFFFFFFF)
            assert await bench.read(register) == before

    run(body)


def test_a_run_counts_its_cycles_and_interrupts() -> None:
    """Done in cycle 25: 26 cycles, the number of the cycle in which the done bit is first set."""

    async def body(bench: Bench) -> None:
        ctx, core = bench.ctx, bench.core
        await bench.start()
        await bench.tick()
        assert not ctx.get(core.start)
        await bench.tick(24)
        ctx.set(core.done, 1)
        assert not ctx.get(bench.dut.interrupt)
        await bench.tick()
        ctx.set(core.done, 0)
        assert ctx.get(bench.dut.interrupt)
        assert await bench.read_wide(Register.CYCLES) == 26
        assert await bench.read(Register.STATUS) == DONE | INTERRUPT
        await bench.write(Register.STATUS, ERROR)
        assert await bench.read(Register.STATUS) == DONE | INTERRUPT
        await bench.write(Register.STATUS, DONE)
        assert await bench.read(Register.STATUS) == 0
        assert not ctx.get(bench.dut.interrupt)
        assert await bench.read_wide(Register.CYCLES) == 26

    run(body)


def test_no_interrupt_unless_enabled() -> None:
    async def body(bench: Bench) -> None:
        await bench.start(START)
        bench.ctx.set(bench.core.done, 1)
        await bench.tick()
        assert not bench.ctx.get(bench.dut.interrupt)
        assert await bench.read(Register.STATUS) == DONE
        await bench.write(Register.CONTROL, INTERRUPT_ENABLE)
        assert bench.ctx.get(bench.dut.interrupt)

    run(body)


def test_every_event_is_counted_in_every_cycle_of_the_run_and_no_other() -> None:
    async def body(bench: Bench) -> None:
        ctx, core, random = bench.ctx, bench.core, Random(1)
        expected = [0] * len(COUNTERS)
        for _ in range(2):  # a second run starts from 0
            ctx.set(core.events.as_value(), -1)
            await bench.start()
            expected = [0] * len(COUNTERS)
            for cycle in range(60):
                flags = random.getrandbits(len(COUNTERS))
                ctx.set(core.events.as_value(), flags)
                ctx.set(core.done, cycle == 59)
                expected = [n + (flags >> bit & 1) for bit, n in enumerate(expected)]
                await bench.tick()
            ctx.set(core.done, 0)
            ctx.set(core.events.as_value(), -1)
            await bench.tick(5)
        assert [await bench.read_wide(c.register) for c in COUNTERS] == expected
        assert await bench.read(Register.STALL) == flags

    run(body)


def test_events_are_named_as_the_table_names_them() -> None:
    async def body(bench: Bench) -> None:
        ctx, core = bench.ctx, bench.core
        await bench.start()
        for repeat, counter in enumerate(COUNTERS, 1):
            ctx.set(core.events.as_value(), 0)
            ctx.set(core.events[counter.module][counter.event], 1)
            await bench.tick(repeat)
        ctx.set(core.events.as_value(), 0)
        await bench.tick()
        assert [await bench.read(c.register) for c in COUNTERS] == list(range(1, len(COUNTERS) + 1))

    run(body)


def test_the_first_error_is_kept() -> None:
    async def body(bench: Bench) -> None:
        ctx, core = bench.ctx, bench.core
        error = {"valid": 1, "module": ErrorModule.STORE, "cause": ErrorCause.AXI_WRITE}
        await bench.start()
        await bench.tick(9)
        ctx.set(core.error, {**error, "index": 77})
        ctx.set(core.done, 1)  # the error goes before
        assert not ctx.get(core.stop)
        await bench.tick()
        assert ctx.get(core.stop)
        ctx.set(core.error, {**error, "cause": ErrorCause.AXI_READ, "index": 5})
        await bench.tick(3)
        ctx.set(core.error, {"valid": 0, "module": 0, "cause": 0, "index": 0})
        ctx.set(core.done, 0)
        assert await bench.read(Register.STATUS) == ERROR | INTERRUPT
        assert await bench.read(Register.ERROR) == 3 << 8 | 8
        assert await bench.read(Register.ERROR_INDEX) == 77
        assert await bench.read_wide(Register.CYCLES) == 10
        await bench.write(Register.STATUS, ERROR)
        assert await bench.read(Register.STATUS) == 0
        assert ctx.get(core.stop)  # until a reset makes the core new
        await bench.start()
        assert not ctx.get(core.stop)
        assert await bench.read(Register.ERROR) == 0

    run(body)


@pytest.mark.parametrize(("done", "stopped"), [(19, False), (20, True)])
def test_the_cycle_limit_is_the_longest_run(done: int, stopped: bool) -> None:
    """A run of 20 cycles, done in cycle 19, is within a limit of 20."""

    async def body(bench: Bench) -> None:
        ctx, core = bench.ctx, bench.core
        await bench.write(Register.CYCLE_LIMIT, 20)
        await bench.start()
        ctx.set(core.events.load.pop_next, 1)
        for cycle in range(30):
            ctx.set(core.done, cycle == done)
            await bench.tick()
        assert ctx.get(core.stop) == stopped
        assert await bench.read_wide(Register.CYCLES) == 20
        assert await bench.read_wide(Register.LOAD_POP_NEXT) == 20
        assert await bench.read(Register.STATUS) == (ERROR if stopped else DONE) | INTERRUPT
        if stopped:
            assert await bench.read(Register.ERROR) == 4 << 8 | 9
            assert await bench.read(Register.STALL) == 1 << 2

    run(body)


def test_a_soft_reset_waits_for_the_bus_and_the_next_run_is_clean() -> None:
    async def body(bench: Bench) -> None:
        ctx, core = bench.ctx, bench.core
        await bench.start()
        await bench.tick(10)
        ctx.set(core.bus_idle, 0)
        await bench.write(Register.CONTROL, SOFT_RESET | INTERRUPT_ENABLE)
        await bench.tick(20)
        assert await bench.read(Register.STATUS) == RESETTING
        ctx.set(core.bus_idle, 1)  # idle for one cycle only: not yet
        await bench.tick()
        ctx.set(core.bus_idle, 0)
        ctx.set(core.done, 1)  # of the run that is abandoned
        await bench.tick(5)
        ctx.set(core.done, 0)
        assert ctx.get(core.soft_reset)
        assert ctx.get(core.stop)
        ctx.set(core.bus_idle, 1)
        await bench.tick(2)
        assert not ctx.get(core.soft_reset)
        await bench.tick(8)
        assert await bench.read(Register.STATUS) == 0
        assert await bench.read_wide(Register.CYCLES) == 0
        await bench.start()
        assert await bench.read(Register.STATUS) == RUNNING

    run(body)


def test_a_start_during_a_reset_follows_it() -> None:
    async def body(bench: Bench) -> None:
        ctx, core = bench.ctx, bench.core
        await bench.write(Register.CONTROL, SOFT_RESET)
        await bench.write(Register.CONTROL, START)
        for _ in range(9):
            assert not ctx.get(core.start)
            await bench.tick()
        ctx.set(core.bus_idle, 1)
        await bench.tick(2)
        await bench.tick()
        assert ctx.get(core.start)
        assert not ctx.get(core.soft_reset)

    run(body)


def test_reset_and_start_in_one_write_restart_a_run_once() -> None:
    async def body(bench: Bench) -> None:
        ctx, core = bench.ctx, bench.core
        await bench.start()
        await bench.tick(50)
        await bench.start(START | SOFT_RESET)
        await bench.tick(3)
        ctx.set(core.done, 1)
        await bench.tick()
        ctx.set(core.done, 0)
        await bench.tick(20)
        assert await bench.read(Register.STATUS) == DONE
        assert await bench.read_wide(Register.CYCLES) == 4

    run(body)


def test_the_set_up_holds_while_running() -> None:
    async def body(bench: Bench) -> None:
        await bench.write(Register.INSTRUCTION_COUNT, 7)
        await bench.start()
        for register in (*BASES.values(), Register.INSTRUCTION_BASE, Register.INSTRUCTION_COUNT):
            await bench.write(register, 99, expect=SLVERR)
        await bench.write(Register.CYCLE_LIMIT + 4, 99, expect=SLVERR)
        await bench.write(Register.CONTROL, START)  # ignored while running
        assert await bench.read(Register.INSTRUCTION_COUNT) == 7
        assert await bench.read(Register.STATUS) == RUNNING
        first = await bench.read_wide(Register.CYCLES)
        assert await bench.read_wide(Register.CYCLES) > first > 0

    run(body)


def test_status_shows_that_work_goes_on_after_done() -> None:
    async def body(bench: Bench) -> None:
        bench.ctx.set(bench.core.idle, 1)
        assert await bench.read(Register.STATUS) == IDLE

    run(body)
