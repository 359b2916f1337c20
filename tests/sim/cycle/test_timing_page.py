"""The worked examples of docs/timing.md, and its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.configs import MATRIX
from tests.random_programs import random_case
from tests.sim.cycle.stepper import step
from vdla.config import PYNQ_Z1, Config
from vdla.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MemoryType, Store, encode_uops
from vdla.program import Program
from vdla.sim import cycle
from vdla.timing import (
    INSTRUCTION_BYTES,
    TIMING,
    compute_latency,
    constants,
    fetch_bursts,
    store_latency,
    unloaded_load_latency,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "timing.md"
INP, UOP, ACC = MemoryType.INP, MemoryType.UOP, MemoryType.ACC


def timed(
    *instructions: Instruction, config: Config = PYNQ_Z1, uops: np.ndarray | None = None
) -> cycle.CycleResult:
    program = Program.from_instructions([*instructions, Finish()], config)
    dram = None if uops is None else uops.view(np.uint8)
    return cycle.time(program, dram)


def spans(result: cycle.CycleResult) -> list[tuple[int, int]]:
    return list(zip(result.start.tolist(), result.finish.tolist(), strict=True))


def test_the_table_on_the_page_is_the_table_in_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index("## Constants") :]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{c.name}` | {c.value} | {c.unit} | {c.reason} |" for c in constants()]


def test_finish_alone() -> None:
    result = timed()
    assert spans(result) == [(41, 61)]
    assert result.cycles == 62


def test_load_multiply_store() -> None:
    program = Program.from_instructions(
        [
            Load(memory_type=INP, sram_base=0, dram_base=0, x_size=4, push_next=True),
            Gemm(uop_begin=0, uop_end=1, iter_out=10, iter_in=10, pop_prev=True, push_next=True),
            Store(sram_base=0, dram_base=100, x_size=8, pop_prev=True, push_prev=True),
            Finish(pop_next=True),
        ],
        PYNQ_Z1,
    )
    result = cycle.time(program)
    assert result.state.log["dispatch"].tolist() == [35, 37, 39, 41]
    assert spans(result) == [(37, 80), (81, 200), (201, 252), (253, 273)]
    assert result.cycles == 274


def test_a_long_load_never_lets_the_bus_rest() -> None:
    result = timed(Load(memory_type=INP, sram_base=0, dram_base=0, x_size=128))
    assert spans(result)[0] == (37, 328)
    assert result.state.log["busy"][0] == 256
    assert (result.state.log["first_write"][0], result.state.log["end_write"][0]) == (72, 328)


def test_padding_goes_in_where_it_stands() -> None:
    load = Load(
        memory_type=INP, sram_base=0, dram_base=0, y_size=2, x_size=2, x_stride=8,
        y_pad_0=1, x_pad_0=1, x_pad_1=1,
    )  # fmt: skip
    result = timed(load)
    assert spans(result)[0] == (37, 83)
    assert result.state.log["first_write"][0] == 38


def test_narrow_elements_are_written_one_a_cycle() -> None:
    uops = np.zeros(8, np.uint32)
    result = timed(Load(memory_type=UOP, sram_base=0, dram_base=1, x_size=7), uops=uops)
    assert spans(result)[0] == (37, 79)


def test_a_slow_memory_spreads_its_beats() -> None:
    config = PYNQ_Z1.replace(dram_bytes_per_cycle=4)
    load = Load(memory_type=INP, sram_base=0, dram_base=0, x_size=128)
    result = timed(load, config=config)
    assert spans(result)[0] == (38, 584)
    assert (result.state.log["first_write"][0], result.state.log["end_write"][0]) == (73, 584)
    assert result.state.log["dispatch"].tolist() == [36, 40]


def test_a_slow_memory_takes_beats_at_its_pace() -> None:
    # 31 beats of 8 bytes, less the 4 that the first leaves, at 5 a cycle: ceil(244 / 5) cycles.
    config = PYNQ_Z1.replace(dram_bytes_per_cycle=5)
    store = Store(sram_base=0, dram_base=0, x_size=16)
    log = timed(store, config=config).state.log
    assert log["end_write"][0] - 1 - log["first_write"][0] == 49
    assert log["finish"][0] == log["end_write"][0] - 1 + 30 + TIMING.response_cycles


def kernel(*entries: tuple[int, int]) -> np.ndarray:
    dst, src = zip(*entries, strict=True)
    return encode_uops(dst, src, [0] * len(dst), PYNQ_Z1)


def slots(*work: Alu | Gemm, uops: np.ndarray) -> list[int]:
    """Cycles from each instruction's start to its last slot, plus one."""
    load = Load(memory_type=UOP, sram_base=0, dram_base=0, x_size=len(uops))
    result = timed(load, *work, uops=uops)
    latency = compute_latency(PYNQ_Z1)
    return [f - s - latency + 1 for s, f in spans(result)[1:-1]]


def alu(op: AluOp, count: int, begin: int = 0, **fields: object) -> Alu:
    return Alu(uop_begin=begin, uop_end=begin + count, alu_opcode=op, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([(10, 0), (11, 0), (12, 0), (13, 0)], 7),  # 3 parameters, 4 vectors
        ([(10, 0), (11, 4), (12, 0), (13, 4)], 16),  # 4 times (3 + 1)
        ([(10, 0), (0, 4), (11, 0)], 3 + 1 + 3 + 1 + 9 + 2 + 1),  # acc[0] once it is written
    ],
)
def test_slots_of_rq(entries: list[tuple[int, int]], expected: int) -> None:
    assert slots(alu(AluOp.RQ, len(entries)), uops=kernel(*entries)) == [expected]


def test_a_parameter_read_waits_for_the_slow_vector_that_writes_it() -> None:
    # Slots 0..3: parameters 0, 1, 2, then vector (10, 0). Slots 4..6, 7: vector (0, 4), slow, at 7.
    # Parameters 0, 1, 2 again: acc[0] at 7 + 9 = 16, so 16, 17, 18, and the vector at 19.
    assert slots(alu(AluOp.RQ, 3), uops=kernel((10, 0), (0, 4), (11, 0))) == [20]


def test_a_slow_operand_waits_and_a_fast_one_does_not() -> None:
    twice = kernel((5, 0), (5, 0))
    assert slots(alu(AluOp.MUL, 2, use_imm=True), uops=twice) == [10]
    assert slots(alu(AluOp.SHR, 2, use_imm=True), uops=twice) == [10]
    assert slots(alu(AluOp.ADD, 2, use_imm=True), uops=twice) == [2]
    assert slots(Gemm(uop_begin=0, uop_end=2), uops=twice) == [2]


def test_a_multiplication_waits_for_a_slow_entry_of_the_instruction_before() -> None:
    once = kernel((5, 0), (6, 0))
    slow = alu(AluOp.MUL, 1, use_imm=True)
    assert slots(slow, Gemm(uop_begin=0, uop_end=1), uops=once) == [1, 9]
    assert slots(slow, Gemm(uop_begin=1, uop_end=2), uops=once) == [1, 1]
    # Overwriting reads nothing, so nothing waits.
    assert slots(slow, Gemm(uop_begin=0, uop_end=1, overwrite=True), uops=once) == [1, 1]


def test_tensor_tensor_takes_two_slots_a_vector() -> None:
    assert slots(alu(AluOp.ADD, 3), uops=kernel((5, 0), (6, 1), (7, 2))) == [6]


def test_no_bubble_between_gemm_requantization_and_gemm() -> None:
    uops = kernel((100, 0), (101, 0), (200, 0))
    gemm = Gemm(uop_begin=2, uop_end=3, iter_in=50)
    load = Load(memory_type=UOP, sram_base=0, dram_base=0, x_size=3)
    result = timed(load, gemm, gemm, alu(AluOp.RQ, 2), gemm, uops=uops)
    assert np.diff(result.start[1:5]).tolist() == [50, 50, 3 + 2]
    assert np.diff(result.finish[1:5]).tolist() == [50, 3 + 2, 50]


def test_derived_latencies() -> None:
    assert compute_latency(PYNQ_Z1) == 2 + 1 + 3 + 4 + 9 + 1
    assert compute_latency(PYNQ_Z1.replace(block_in=32, inp_bytes=64 << 10)) == 21
    # From the examples: 37 -> first write in 72; store in 201 -> 252 with 16 beats.
    assert unloaded_load_latency(PYNQ_Z1) == 72 - 37
    assert store_latency(PYNQ_Z1) == 252 - 201 - 16
    assert fetch_bursts(PYNQ_Z1) == TIMING.fetch_burst_slots
    one_beat = PYNQ_Z1.replace(axi_data_bits=32, axi_burst_beats=1)
    assert fetch_bursts(one_beat) * 4 == 2 * INSTRUCTION_BYTES


VARIANTS: list[dict[str, float]] = [
    {},
    {"dram_latency_cycles": 1},
    {"dram_latency_cycles": 100, "axi_outstanding": 2},
    {"token_queue_depth": 2, "command_queue_depth": 4},
    {"axi_burst_beats": 1},
    {"axi_data_bits": 32, "axi_burst_beats": 2, "axi_outstanding": 1},
    {"axi_data_bits": 256, "axi_version": 4, "axi_burst_beats": 32},
    {"dram_bytes_per_cycle": 5.3},
    {"dram_bytes_per_cycle": 0.9, "dram_latency_cycles": 7},
    {"axi_data_bits": 256, "axi_version": 4, "axi_burst_beats": 32, "dram_bytes_per_cycle": 17.1},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("config", [MATRIX[0], MATRIX[1], MATRIX[4]], ids=lambda c: c.name)
def test_the_engine_agrees_with_the_page_stepped_cycle_by_cycle(
    config: Config, variant: dict[str, float]
) -> None:
    agrees(config.replace(**variant), VARIANTS.index(variant), length=40)


@pytest.mark.slow
@pytest.mark.parametrize("config", MATRIX, ids=lambda c: c.name)
@pytest.mark.parametrize("seed", range(10, 14))
def test_the_engine_agrees_with_the_page_on_every_configuration(config: Config, seed: int) -> None:
    for variant in VARIANTS:
        agrees(config.replace(**variant), seed, length=60)


def agrees(config: Config, seed: int, length: int) -> None:
    case = random_case(config, seed, length)
    start, finish = step(case.program, case.dram)
    result = cycle.time(case.program, case.dram)
    np.testing.assert_array_equal(result.start, start)
    np.testing.assert_array_equal(result.finish, finish)


def test_the_engine_agrees_with_the_page_on_dense_hazards() -> None:
    rng = np.random.default_rng(7)
    uops = encode_uops(rng.integers(0, 6, 64), rng.integers(0, 6, 64), [0] * 64, PYNQ_Z1)
    work: list[Instruction] = [Load(memory_type=UOP, sram_base=0, dram_base=0, x_size=64)]
    for _ in range(120):
        begin = int(rng.integers(0, 60))
        loops = {
            "uop_begin": begin,
            "uop_end": begin + int(rng.integers(0, 5)),
            "iter_out": int(rng.integers(1, 3)),
            "iter_in": int(rng.integers(1, 3)),
            "dst_factor_in": int(rng.integers(0, 3)),
            "src_factor_out": int(rng.integers(0, 3)),
        }
        if rng.random() < 0.3:
            work.append(Gemm(**loops, overwrite=bool(rng.random() < 0.3)))  # type: ignore[arg-type]
        elif rng.random() < 0.1:
            work.append(Load(memory_type=ACC, sram_base=0, dram_base=4, x_size=2))
        else:
            op = AluOp(int(rng.integers(0, 6)))
            work.append(Alu(**loops, alu_opcode=op, use_imm=bool(rng.random() < 0.5)))  # type: ignore[arg-type]
    program = Program.from_instructions([*work, Finish()], PYNQ_Z1)
    dram = uops.view(np.uint8)
    start, finish = step(program, dram)
    result = cycle.time(program, dram)
    np.testing.assert_array_equal(result.start, start)
    np.testing.assert_array_equal(result.finish, finish)
