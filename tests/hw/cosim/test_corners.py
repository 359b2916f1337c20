"""What networks and random programs do not reach: full queues, every length, shift, register."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.builder import Builder
from tests.configs import VARIANTS
from tests.hw.cosim.compare import expect, machine_of, same_to_the_bit, same_to_the_cycle
from tests.hw.transfers import LOADED, transfers
from vdla.config import TINY
from vdla.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MemoryType, Store
from vdla.registers import Access, Register

pytestmark = pytest.mark.rtl

OKAY, SLVERR = 0, 2
EACH = {"tiny": TINY} | VARIANTS
MORE = TINY.token_queue_depth + 50
"""Tokens, or instructions, than a queue has room for."""


def _nothing(kind: MemoryType, **tokens: bool) -> Load:
    return Load(memory_type=kind, sram_base=0, dram_base=0, x_size=0, **tokens)


def _load(**tokens: bool) -> Instruction:
    return _nothing(MemoryType.INP, **tokens)


def _compute(**tokens: bool) -> Instruction:
    return _nothing(MemoryType.UOP, **tokens)


def _store(**tokens: bool) -> Instruction:
    return Store(sram_base=0, dram_base=0, x_size=0, **tokens)


QUEUES: dict[str, tuple[str, Instruction, Instruction]] = {
    "load_to_compute": ("load", _load(push_next=True), _compute(pop_prev=True)),
    "compute_to_load": ("compute", _compute(push_prev=True), _load(pop_next=True)),
    "compute_to_store": ("compute", _compute(push_next=True), _store(pop_prev=True)),
    "store_to_compute": ("store", _store(push_prev=True), _compute(pop_next=True)),
}
"""By token queue: who fills it, with what, and what empties it."""


@pytest.mark.parametrize("name", QUEUES)
def test_a_full_token_queue_stalls_who_pushes(name: str) -> None:
    """The takers come behind all the pushers, so that the queue fills to its end."""
    module, pushes, pops = QUEUES[name]
    b = Builder(TINY)
    b.reserve(16)
    for instruction in (pushes, pops):
        for _ in range(MORE):
            b.add(instruction)
    b.add(Finish())
    machine, expected = machine_of(TINY), expect(b.case(name))
    same_to_the_cycle(machine, expected)
    assert machine.driver.counters()[module]["push"] > 0
    same_to_the_bit(machine, expected, 1)


def test_a_full_command_queue_stalls_fetch() -> None:
    b = Builder(TINY)
    b.uops([(0, 0, 0)])
    loops = {"iter_out": 50, "iter_in": 100, "dst_factor_out": 1, "dst_factor_in": 2}
    b.add(Gemm(uop_begin=0, uop_end=1, **loops, reset=True))
    for _ in range(TINY.command_queue_depth + 50):
        b.add(_compute())
    b.add(Finish())
    machine = machine_of(TINY)
    same_to_the_cycle(machine, expect(b.case("full")))
    assert machine.driver.counters()["fetch"]["full"] > 0


@pytest.mark.parametrize("config", EACH)
@pytest.mark.parametrize("operation", [AluOp.SHR, AluOp.MUL])
def test_every_amount_in_every_lane(operation: AluOp, config: str) -> None:
    """Shifts of -35 to 35, and the powers of two, each in each lane."""
    machine = EACH[config]
    lanes, amounts = machine.batch * machine.block_out, np.arange(-35, 36)
    right = amounts if operation is AluOp.SHR else 1 << (amounts + 35) % 31
    count = len(amounts)
    b, rng = Builder(machine), np.random.default_rng(1)
    values = rng.integers(-(1 << 31), 1 << 31, (count, lanes)).astype(np.int32)
    rolled = np.stack([np.roll(right, lane * 7) for lane in range(lanes)], axis=1)
    left = b.place(MemoryType.ACC, values)
    amount = b.place(MemoryType.ACC, rolled.astype(np.int32))
    target = b.reserve(4 * count)
    b.uops([(0, count, 0), (2 * count, 0, 0)])
    b.load(MemoryType.ACC, 0, left, count)
    b.load(MemoryType.ACC, count, amount, count)
    loops = {"iter_in": count, "dst_factor_in": 1}
    both = loops | {"src_factor_in": 1}
    b.add(Alu(alu_opcode=operation, uop_begin=0, uop_end=1, **both))
    copy = {"uop_begin": 1, "uop_end": 2}
    shift = Alu(alu_opcode=AluOp.SHR, use_imm=True, **copy, **loops)
    # The result's four bytes, from the lowest, each through the range of OUT.
    for byte in range(4):
        b.add(Gemm(**copy, **loops, reset=True, pop_next=byte > 0))
        b.add(Alu(alu_opcode=AluOp.ADD, **copy, **both))
        b.add(replace(shift, imm=8 * byte - 24))
        b.add(replace(shift, imm=24, push_next=True))
        first = {"sram_base": 2 * count, "dram_base": target + byte * count}
        b.add(Store(**first, x_size=count, pop_prev=True, push_prev=True))
    result = [
        [_exact(operation, int(x), int(y)) & 0xFFFF_FFFF for x, y in zip(*rows, strict=True)]
        for rows in zip(values, rolled, strict=True)
    ]
    low_first = np.array(result, "<u4").view(np.int8).reshape(count, lanes, 4)
    outputs = [(target + byte * count, low_first[..., byte]) for byte in range(4)]
    expected = expect(b.case(operation.name.lower(), *outputs))
    same_to_the_cycle(machine_of(machine), expected)


@pytest.mark.parametrize("kind", LOADED, ids=lambda kind: kind.name.lower())
def test_blocks_of_every_length_and_alignment(kind: MemoryType) -> None:
    """Over ends of pages among them."""
    expected = expect(transfers(kind))
    same_to_the_cycle(machine_of(TINY), expected)
    same_to_the_bit(machine_of(TINY), expected, 1)


def _exact(operation: AluOp, x: int, y: int) -> int:
    """Return the result before it wraps."""
    if operation is AluOp.MUL:
        return x * y
    return x >> y if y >= 0 else x << -y


@pytest.mark.parametrize("config", EACH)
def test_every_register_is_read_and_written(config: str) -> None:
    """Each word by the table: what software may write keeps it, the rest does not change."""
    simulation = machine_of(EACH[config]).simulation
    words = {register + 4 * k: register for register in Register for k in range(register.words)}
    volatile = {Register.CONTROL, Register.STATUS}
    for offset in range(0, 0x400, 4):
        register = words.get(offset)
        before, response = simulation.transfer(offset)
        assert response == (SLVERR if register is None else OKAY), hex(offset)
        written = 0 if register in volatile else 0xA5A5_A5A5
        _, response = simulation.transfer(offset, written)
        assert response == (SLVERR if register is None else OKAY), hex(offset)
        if register is None or register in volatile:
            continue
        lsb = 8 * (offset - register)
        mask = sum(
            bits.mask for bits in register.fields if bits.access in (Access.WRITE, Access.SETUP)
        )
        mask = mask >> lsb & 0xFFFF_FFFF
        assert simulation.read(offset) == before & ~mask | written & mask, hex(offset)
