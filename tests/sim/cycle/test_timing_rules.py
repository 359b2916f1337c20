"""Limits, back-pressure and counters of the timing engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.configs import MATRIX
from tests.random_programs import random_case
from vdla.config import PYNQ_Z1, Config
from vdla.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MemoryType, Store
from vdla.program import Program
from vdla.sim import cycle
from vdla.timing import TIMING

INP, WGT, UOP, ACC = MemoryType.INP, MemoryType.WGT, MemoryType.UOP, MemoryType.ACC


def timed(instructions: list[Instruction], config: Config = PYNQ_Z1) -> cycle.CycleResult:
    return cycle.time(Program.from_instructions([*instructions, Finish()], config))


def inp(x_size: int, **fields: object) -> Load:
    return Load(memory_type=INP, sram_base=0, dram_base=0, x_size=x_size, **fields)  # type: ignore[arg-type]


def test_consecutive_loads_keep_the_bus_busy() -> None:
    result = timed([inp(64) for _ in range(20)])
    beats = 20 * 64 * 2
    # 21 instructions are 42 beats; fetch's two slots bring 32 before the first load starts.
    fetched = 42 - 32
    log = result.state.log
    assert log["end_write"][19] - log["first_write"][0] == beats + fetched
    assert log["busy"][:20].sum() == beats


def test_store_sends_a_beat_a_cycle() -> None:
    stores: list[Instruction] = [
        Store(sram_base=0, dram_base=1024 * k, x_size=256) for k in range(4)
    ]
    last = stores.pop()
    assert isinstance(last, Store)
    # FINISH waits for the last store, so that all of them lie within the run.
    wait = Alu(uop_begin=0, uop_end=0, alu_opcode=AluOp.ADD, pop_next=True)
    done = [*stores, replace(last, push_prev=True), wait]
    log = timed(done).state.log
    assert log["end_write"][3] - log["first_write"][0] == 4 * 512


@pytest.mark.parametrize("outstanding", [1, 2, 4, 8])
def test_outstanding_bursts_bound_a_long_latency(outstanding: int) -> None:
    config = PYNQ_Z1.replace(axi_outstanding=outstanding, dram_latency_cycles=200)
    log = timed([inp(1024)], config).state.log
    bursts = 1024 * 2 // 16
    # A slot is held from emission: request, grant, latency, the beat's store, 16 drained.
    period = (
        TIMING.request_cycles
        + TIMING.grant_cycles
        + config.dram_latency_cycles
        + TIMING.drain_cycles
        + 16
    )
    rounds = bursts // outstanding - 1
    expected = rounds * period + outstanding * 16
    assert log["end_write"][0] - log["first_write"][0] == expected


@pytest.mark.parametrize("latency", [1, 30, 300])
def test_latency_moves_a_load_by_itself(latency: int) -> None:
    result = timed([inp(4)], PYNQ_Z1.replace(dram_latency_cycles=latency))
    # Once for fetch, once for the load.
    assert result.finish[0] == 80 + 2 * (latency - 30)


def test_readers_take_turns() -> None:
    loads: list[Instruction] = [
        inp(512),
        Load(memory_type=ACC, sram_base=0, dram_base=0, x_size=128),
    ]
    result = timed(loads)
    # Both move 1024 beats, burst by burst in turn; the second starts two cycles later.
    assert abs(int(result.finish[0]) - int(result.finish[1])) <= 2 * 16
    ends = result.state.log["end_write"]
    assert max(ends[:2]) - min(result.state.log["first_write"][:2]) == 2048


def test_a_page_splits_a_burst() -> None:
    # Element 252 of 16 bytes: 4 elements, 8 beats, to the page, then 8 more.
    across = Load(memory_type=INP, sram_base=0, dram_base=252, x_size=8)
    within = Load(memory_type=INP, sram_base=0, dram_base=256, x_size=8)
    assert timed([across]).table.bursts["beats"][:2].tolist() == [8, 8]
    assert timed([within]).table.bursts["beats"][:1].tolist() == [16]


def test_a_full_token_queue_stalls_its_producer() -> None:
    config = PYNQ_Z1.replace(token_queue_depth=2)
    pushing = [inp(1, push_next=True) for _ in range(5)]
    busy = Gemm(uop_begin=0, uop_end=1, iter_in=1000)
    popping = [Gemm(uop_begin=0, uop_end=1, pop_prev=True) for _ in range(5)]
    result = timed([busy, *pushing, *popping], config)
    finish, start = result.finish, result.start
    assert finish[2] < start[6]  # two tokens fit
    for k in range(3):  # the third retires in the cycle after a pop
        assert finish[3 + k] == start[6 + k] + 1
    cycles, levels = result.token_levels("load->compute")
    assert levels.max() == 2
    assert levels[-1] == 0
    assert (np.diff(cycles) > 0).all()
    assert result.counters["load"]["push"] > 900


def test_a_full_command_queue_stops_fetch() -> None:
    config = PYNQ_Z1.replace(command_queue_depth=2)
    gemm = Gemm(uop_begin=0, uop_end=1, iter_in=500)
    log = timed([gemm] * 6, config).state.log
    # Entry k is free in the cycle after instruction k - 2 starts.
    assert (log["dispatch"][2:6] == log["start"][:4] + 1).all()
    assert (np.diff(log["start"][:6]) == 500).all()


def test_empty_instructions_take_one_slot_each() -> None:
    empty = Gemm(uop_begin=0, uop_end=0)
    result = timed([Gemm(uop_begin=0, uop_end=1, iter_in=300), *[empty] * 40])
    assert (np.diff(result.start[1:41]) == 1).all()


def test_gemms_of_one_micro_op_follow_each_other() -> None:
    one = Gemm(uop_begin=0, uop_end=1)
    result = timed([Gemm(uop_begin=0, uop_end=1, iter_in=300), *[one] * 60])
    assert (np.diff(result.start[1:61]) == 1).all()


def test_a_load_of_compute_drains_and_is_waited_for() -> None:
    gemm = Gemm(uop_begin=0, uop_end=1, iter_in=300)
    load = Load(memory_type=ACC, sram_base=0, dram_base=0, x_size=2)
    result = timed([gemm, load, load, gemm])
    start, finish = result.start, result.finish
    assert start[1] == finish[0] + 1
    assert start[2] == start[1] + 2 + 1  # one burst, emitted after set-up
    assert start[3] == finish[2] + 1 + TIMING.sequencer_cycles


@pytest.mark.parametrize("config", MATRIX[:5], ids=lambda c: c.name)
def test_causes_sum_to_the_cycles_of_every_module(config: Config) -> None:
    for seed in range(6):
        case = random_case(config, seed)
        result = cycle.time(case.program, case.dram)
        for causes in result.counters.values():
            assert sum(causes.values()) == result.cycles
            assert min(causes.values()) >= 0


def layered() -> cycle.CycleResult:
    one: list[Instruction] = [
        inp(4, push_next=True),
        Gemm(uop_begin=0, uop_end=1, iter_in=100, pop_prev=True, push_next=True),
        Store(sram_base=0, dram_base=0, x_size=4, pop_prev=True, push_prev=True),
        Alu(uop_begin=0, uop_end=0, alu_opcode=AluOp.ADD, pop_next=True),
    ]
    program = Program.from_instructions(
        [*one, *one, Finish()], PYNQ_Z1, ("first", "second"), (0,) * 4 + (1,) * 4 + (-1,)
    )
    return cycle.time(program)


def test_layers_sum_to_the_total() -> None:
    result = layered()
    first, second = result.layers
    assert (first.name, second.name) == ("first", "second")
    assert first.begin == 0
    assert first.end == second.begin == result.finish[2] + 1
    assert second.end == result.cycles
    assert first.cycles + second.cycles == result.cycles
    assert (first.bytes_read, first.bytes_written) == (64, 64)
    for layer in result.layers:
        for causes in layer.waiting.values():
            assert sum(causes.values()) == layer.cycles
    # The second layer's input waits for nobody: its load and GEMM overlap the first's store.
    assert first.waiting["compute"]["busy"] >= 100


def test_what_moved_and_what_was_touched() -> None:
    result = layered()
    assert (result.bytes_read, result.bytes_written, result.bytes_fetched) == (128, 128, 9 * 16)
    assert result.buffers["inp"] == (200, 8)
    assert result.buffers["acc"] == (200, 200)
    assert result.buffers["out"] == (8, 200)
    assert result.instructions == {"load": 2, "compute": 5, "store": 2}
    assert (np.diff(result.events["cycle"]) >= 0).all()
    assert len(result.events) == 18
