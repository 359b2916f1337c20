"""The bridge from a Zynq-7000's port to the control port: random bursts against a dictionary."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from vdla.errors import ConfigError
from vdla.gateware.axi3_control import Axi3Bridge, window
from vdla.gateware.axi_lite import AxiLitePort

BASE, SIZE = 0x43C0_0000, 0x1_0000
WORDS = 8  # the first words read back; the next ones are refused
OKAY, SLVERR, DECERR = 0, 2, 3
FIXED, INCR, WRAP = 0, 1, 2


class System(wiring.Component):
    """The bridge before the real control port, with a few words behind it."""

    def __init__(self) -> None:
        self.bridge = Axi3Bridge(BASE, SIZE)
        self.gp = self.bridge.gp
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bridge = bridge = self.bridge
        m.submodules.port = port = AxiLitePort()
        connect(m, bridge.control, port.axi)
        words, kept = port.words, Array(Signal(32, name=f"word_{i}") for i in range(WORDS))
        m.d.comb += [
            words.write_error.eq(words.write_word >= WORDS),
            words.read_error.eq(words.read_word >= WORDS),
            words.read_data.eq(kept[words.read_word[:3]]),
        ]
        with m.If(words.write & (words.write_word < WORDS)):
            old = kept[words.write_word[:3]]
            m.d.sync += old.eq((old & ~words.write_mask) | (words.write_data & words.write_mask))
        return m


@dataclass
class Burst:
    """An access: byte address, beats, bytes a beat, kind, and for a write its data and strobes."""

    address: int
    beats: int
    size: int = 2
    kind: int = INCR
    name: int = 0
    data: tuple[tuple[int, int], ...] = ()

    def addresses(self) -> list[int]:
        step = 0 if self.kind == FIXED else 1 << self.size
        return [self.address + step * beat for beat in range(self.beats)]

    def refusal(self) -> int:
        if self.address & ~(SIZE - 1) != BASE:
            return DECERR
        return SLVERR if self.kind == WRAP else OKAY


def run(bursts: list[Burst], seed: int | None) -> list[Any]:
    """Perform bursts one after the other; what each write and each beat of a read got."""
    chance = random.Random(seed)
    system, answers = System(), []
    gp = system.gp

    def wait() -> int:
        return 0 if seed is None else chance.choice([0, 0, 1, 3])

    async def send(ctx: Any, channel: str, **values: int) -> None:
        await ctx.tick().repeat(wait() or 1)
        for name, value in values.items():
            ctx.set(getattr(gp, channel + name), value)
        ctx.set(getattr(gp, f"{channel}valid"), 1)
        await ctx.tick().until(getattr(gp, f"{channel}ready"))
        ctx.set(getattr(gp, f"{channel}valid"), 0)

    async def receive(ctx: Any, channel: str, *names: str) -> tuple[int, ...]:
        await ctx.tick().repeat(wait() or 1)
        ctx.set(getattr(gp, f"{channel}ready"), 1)
        signals = [getattr(gp, channel + name) for name in names]
        found = await ctx.tick().sample(*signals).until(getattr(gp, f"{channel}valid"))
        ctx.set(getattr(gp, f"{channel}ready"), 0)
        return tuple(int(value) for value in found)

    async def bench(ctx: Any) -> None:
        for burst in bursts:
            channel = "aw" if burst.data else "ar"
            await send(
                ctx,
                channel,
                id=burst.name,
                addr=burst.address,
                len=burst.beats - 1,
                size=burst.size,
                burst=burst.kind,
            )
            if burst.data:
                for beat, (data, strobe) in enumerate(burst.data, 1):
                    await send(ctx, "w", data=data, strb=strobe, last=int(beat == burst.beats))
                answers.append(await receive(ctx, "b", "id", "resp"))
            else:
                beats = []
                for _ in range(burst.beats):
                    name, error, data, last = await receive(ctx, "r", "id", "resp", "data", "last")
                    beats.append((name, error, None if error else data, last))
                answers.append(beats)

    simulator = Simulator(system)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run_until(1e-8 * 200 * max(len(bursts), 1))
    assert len(answers) == len(bursts)
    return answers


def expected(bursts: list[Burst]) -> list[Any]:
    """Say the same from a dictionary of words."""
    words, answers = dict.fromkeys(range(WORDS), 0), []
    for burst in bursts:
        refused = burst.refusal()
        places = [(address % SIZE) // 4 % 1024 for address in burst.addresses()]
        errors = [refused or (OKAY if place < WORDS else SLVERR) for place in places]
        if burst.data:
            for place, error, (data, strobe) in zip(places, errors, burst.data, strict=True):
                for byte in range(4):
                    if not error and strobe >> byte & 1:
                        mask = 0xFF << 8 * byte
                        words[place] = words[place] & ~mask | data & mask
            answers.append((burst.name, max(errors)))
        else:
            answers.append(
                [
                    (burst.name, error, None if error else words[place], int(beat == burst.beats))
                    for beat, (place, error) in enumerate(zip(places, errors, strict=True), 1)
                ]
            )
    return answers


def test_a_word_is_written_and_read() -> None:
    bursts = [
        Burst(BASE + 4, 1, name=0xABC, data=((0x12345678, 0xF),)),
        Burst(BASE + 4, 1, name=0x123),
    ]
    assert run(bursts, None) == [(0xABC, OKAY), [(0x123, OKAY, 0x12345678, 1)]]


def test_a_burst_goes_on_word_by_word() -> None:
    """As a 64-bit load or store of the processor does."""
    bursts = [
        Burst(BASE + 8, 2, data=((1, 0xF), (2, 0xF))),
        Burst(BASE + 8, 2),
        Burst(BASE + 12, 3, kind=FIXED),
    ]
    assert run(bursts, None) == [
        (0, OKAY),
        [(0, OKAY, 1, 0), (0, OKAY, 2, 1)],
        [(0, OKAY, 2, 0), (0, OKAY, 2, 0), (0, OKAY, 2, 1)],
    ]


@pytest.mark.parametrize(
    ("address", "kind", "answer"),
    [
        (BASE + SIZE, INCR, DECERR),
        (0x4180_0000, INCR, DECERR),
        (BASE, WRAP, SLVERR),
        (BASE + 4 * WORDS, INCR, SLVERR),  # the registers' own refusal
    ],
)
def test_what_is_refused_changes_nothing(address: int, kind: int, answer: int) -> None:
    bursts = [
        Burst(BASE, 1, data=((7, 0xF),)),
        Burst(address, 2, kind=kind, data=((1, 0xF), (2, 0xF))),
        Burst(address, 2, kind=kind),
        Burst(BASE, 1),
    ]
    found = run(bursts, None)
    assert found[1] == (0, answer)
    assert [beat[1] for beat in found[2]] == [answer, answer]
    assert found[3] == [(0, OKAY, 7, 1)]


@pytest.mark.parametrize("seed", range(4))
def test_random_bursts(seed: int) -> None:
    chance = random.Random(seed)
    bursts = []
    for _ in range(60):
        beats, size = chance.choice([1, 1, 2, 4, 16]), chance.choice([0, 1, 2, 2, 2])
        data = tuple((chance.getrandbits(32), chance.getrandbits(4)) for _ in range(beats))
        bursts.append(
            Burst(
                address=chance.choice([BASE, BASE, BASE, BASE, BASE + SIZE])
                + (chance.randrange(4 * (WORDS + 2)) >> size << size),
                beats=beats,
                size=size,
                kind=chance.choice([INCR, INCR, INCR, FIXED, WRAP]),
                name=chance.getrandbits(12),
                data=data if chance.random() < 0.5 else (),
            )
        )
    assert run(bursts, seed) == expected(bursts)


def test_a_window_must_be_aligned() -> None:
    assert window(BASE, SIZE) == (16, 0x43C0)
    with pytest.raises(ConfigError) as error:
        window(0x43C0_8000, 0x10000)
    assert str(error.value) == (
        "A window of registers must be a power of two that its address is a multiple of, not "
        "0x10000 at 0x43c08000."
    )
