"""What the analysis says, on programs small enough to see through."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.config import TINY, Config
from vdla.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Store,
    encode_uops,
)
from vdla.program import Program
from vdla.sim.dependence import Kind, check

UOP, WGT, INP, ACC = MemoryType.UOP, MemoryType.WGT, MemoryType.INP, MemoryType.ACC


def load(kind: MemoryType, sram: int = 0, dram: int = 64, x: int = 1, **fields) -> Load:
    return Load(memory_type=kind, sram_base=sram, dram_base=dram, x_size=x, **fields)


def store(sram: int = 0, dram: int = 0, x: int = 1, **fields) -> Store:
    return Store(sram_base=sram, dram_base=dram, x_size=x, **fields)


def gemm(**fields) -> Gemm:
    return Gemm(uop_begin=0, uop_end=1, **fields)


def image() -> np.ndarray:
    """4 KiB: micro-op (0, 0, 0) at element 128 and (1, 1, 0) at 129, zeros elsewhere."""
    dram = np.zeros(4096, np.uint8)
    dram[512:520] = encode_uops([0, 1], [0, 1], [0, 0], TINY).view(np.uint8)
    return dram


def findings(*instructions: Instruction, config: Config = TINY) -> list[tuple[Kind, tuple, str]]:
    program = Program.from_instructions(instructions, config)
    return [(f.kind, f.instructions, f.message) for f in check(program, image())]


def kinds(*instructions: Instruction) -> list[tuple[Kind, tuple[int, ...]]]:
    return [(kind, indices) for kind, indices, _ in findings(*instructions)]


UOPS = load(UOP, dram=128, x=2)
FILL = (UOPS, load(WGT), load(INP, x=2, push_next=True), gemm(overwrite=True, pop_prev=True))


def test_a_correct_program() -> None:
    assert kinds(*FILL, Finish()) == []


def test_read_before_the_load_is_done() -> None:
    program = (UOPS, load(WGT), load(INP), gemm(overwrite=True), Finish())
    assert findings(*program) == [
        (
            Kind.RACE,
            (2, 3),
            "instruction 2 in load (`load.inp  sram=0 dram=0x40 x=1`) writes INP entry 0, "
            "instruction 3 in compute (`gemm.overwrite uop=0:1`) reads it, and no tokens lead from "
            "one to the other.",
        ),
        (
            Kind.RACE,
            (1, 3),
            "instruction 1 in load (`load.wgt  sram=0 dram=0x40 x=1`) writes WGT entry 0, "
            "instruction 3 in compute (`gemm.overwrite uop=0:1`) reads it, and no tokens lead from "
            "one to the other.",
        ),
        (
            Kind.UNFINISHED,
            (2, 4),
            "instruction 4 in compute (`finish`) does not wait for instruction 2 in load "
            "(`load.inp  sram=0 dram=0x40 x=1`).",
        ),
    ]


def test_load_over_what_is_still_read() -> None:
    late = load(INP, push_next=True)
    assert kinds(*FILL, late, Finish(pop_prev=True)) == [(Kind.RACE, (3, 4))]
    other = load(INP, sram=2, push_next=True)
    assert kinds(*FILL, other, Finish(pop_prev=True)) == []


def test_exact_entries_through_micro_ops_and_factors() -> None:
    """The micro-op names INP 0; with a factor of 5 the second iteration names INP 5."""
    start = (UOPS, load(WGT), load(INP, x=9, push_next=True))
    loop = gemm(overwrite=True, iter_in=2, src_factor_in=5, pop_prev=True)
    for entry, expected in ((4, []), (5, [(Kind.RACE, (3, 4))]), (6, [])):
        late = load(INP, sram=entry, push_next=True)
        assert kinds(*start, loop, late, Finish(pop_prev=True)) == expected


def test_out_between_compute_and_store() -> None:
    done = Finish(pop_next=True)
    assert kinds(*FILL, store(push_prev=True), done) == [(Kind.RACE, (3, 4))]
    push = gemm(push_next=True)
    stored = store(pop_prev=True, push_prev=True)
    assert kinds(*FILL, push, stored, done) == []
    assert kinds(*FILL, push, stored, gemm(), done) == [(Kind.RACE, (5, 6))]
    assert kinds(*FILL, push, stored, gemm(pop_next=True), Finish()) == []
    acc = load(ACC)  # ACC is no place that a store reads
    assert kinds(*FILL, push, stored, acc, done) == []


def test_memory_between_store_and_load() -> None:
    """OUT element 16 and INP element 16 are the same 4 bytes."""
    both = gemm(iter_in=2, dst_factor_in=1, push_next=True, overwrite=True)
    before = (*FILL, both, store(dram=16, x=2, pop_prev=True, push_prev=True))
    for element, expected in ((15, []), (17, [(Kind.RACE, (5, 6))]), (18, [])):
        late = load(INP, sram=9, dram=element, push_next=True)
        program = (*before, late, Finish(pop_prev=True, pop_next=True))
        assert kinds(*program) == expected
    relay = load(UOP, x=0, pop_next=True, push_prev=True)
    late = load(INP, sram=9, dram=17, pop_next=True, push_next=True)
    assert kinds(*before, relay, late, Finish(pop_prev=True)) == []


def test_rows_between_the_rows_of_a_store_are_free() -> None:
    """Rows of 2 elements, 4 apart: elements 16, 17, 20, 21."""
    rows = store(dram=16, y_size=2, x=2, x_stride=4, pop_prev=True, push_prev=True)
    wide = gemm(iter_in=4, dst_factor_in=1, overwrite=True, push_next=True)
    for element, length, raced in ((18, 2, False), (19, 2, True), (22, 3, False), (14, 9, True)):
        late = load(INP, sram=9, dram=element, x=length, push_next=True)
        found = kinds(*FILL, wide, rows, late, Finish(pop_prev=True, pop_next=True))
        assert found == ([(Kind.RACE, (5, 6))] if raced else [])


def test_finish_waits_for_every_store() -> None:
    push = gemm(push_next=True)
    stored = store(pop_prev=True)
    assert kinds(*FILL, push, stored, Finish()) == [(Kind.UNFINISHED, (5, 6))]


def test_tokens_left_over() -> None:
    assert findings(*FILL, gemm(push_next=True), Finish()) == [
        (
            Kind.UNBALANCED,
            (4,),
            "1 token remains in compute->store, pushed by instruction 4 (`gemm      uop=0:1 ; "
            "push_next`).",
        )
    ]


def test_deadlock() -> None:
    assert findings(*FILL[:2], load(INP), FILL[3], Finish())[0] == (
        Kind.DEADLOCK,
        (3,),
        "compute is stuck at instruction 3 (`gemm.overwrite uop=0:1 ; pop_prev`): it waits for "
        "token 1 of load->compute; the program pushes only 0 there, so push 1 by load is missing.",
    )


def test_circular_deadlock_names_both_sides() -> None:
    found = findings(
        UOPS,
        load(INP, pop_next=True, push_next=True),
        gemm(pop_prev=True, push_prev=True),
        Finish(),
    )
    assert [(kind, indices) for kind, indices, _ in found] == [
        (Kind.DEADLOCK, (1,)),
        (Kind.DEADLOCK, (2,)),
    ]
    assert "that push is due from instruction 2 (`gemm " in found[0][2]
    assert "that push is due from instruction 1 (`load.inp " in found[1][2]


def test_full_token_queue() -> None:
    """Two tokens fit; the third producer stalls for good, as nothing pops."""
    config = TINY.replace(token_queue_depth=2, name="shallow")
    pushes = [load(INP, push_next=True) for _ in range(3)]
    found = findings(*pushes, Finish(), config=config)
    assert found[0][:2] == (Kind.DEADLOCK, (2,))
    assert "its push finds load->compute full (2 tokens)." in found[0][2]


def test_full_command_queue() -> None:
    """Loads that wait for compute fill their queue, so fetch never reaches compute's push."""
    config = TINY.replace(command_queue_depth=2, name="shallow")
    waiting = [load(INP, pop_next=True) for _ in range(3)]
    pushing = [load(UOP, x=0, push_prev=True) for _ in range(3)]
    kind, indices, message = findings(*waiting, *pushing, Finish(), config=config)[-1]
    assert (kind, indices) == (Kind.DEADLOCK, (2,))
    assert "the command queue of load holds 2 instructions already." in message
    assert findings(*pushing, *waiting, Finish(), config=config)[0][0] is Kind.UNFINISHED


def test_scratchpads_keep_nothing_from_the_launch_before() -> None:
    assert (
        findings(gemm(reset=True), Finish())
        == [
            (
                Kind.UNWRITTEN,
                (0,),
                "instruction 0 in compute (`gemm.reset uop=0:1`) reads UOP entry 0, which no "
                "instruction before it writes.",
            ),
            # What an unwritten micro-op names is past every buffer.
        ]
        or findings(gemm(reset=True), Finish())[0][0] is Kind.UNWRITTEN
    )
    add = Alu(alu_opcode=AluOp.ADD, uop_begin=1, uop_end=2, use_imm=True, imm=1)
    assert kinds(UOPS, add, Finish()) == [(Kind.UNWRITTEN, (1,))]
    assert kinds(UOPS, gemm(), Finish()) == [(Kind.UNWRITTEN, (1,))] * 3


def test_micro_ops_must_be_known() -> None:
    stored = store(dram=128, pop_prev=True, push_prev=True)
    again = load(UOP, dram=128, pop_next=True)
    ((kind, indices, message),) = findings(*FILL, gemm(push_next=True), stored, again, Finish())
    assert (kind, indices) == (Kind.ILLEGAL, (5, 6))
    assert "must stand in memory from the start" in message


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (load(INP, sram=511, x=2, push_next=True), "INP entries must lie below 512 on tiny"),
        (load(INP, dram=1023, x=2, push_next=True), "Memory addresses must lie in 0..0xfff"),
    ],
)
def test_an_error_stop(instruction: Instruction, message: str) -> None:
    ((kind, indices, text),) = findings(instruction, Finish(pop_prev=True))
    assert (kind, indices) == (Kind.ILLEGAL, (0,))
    assert message in text


def test_a_program_that_cannot_be_read() -> None:
    program = Program(TINY, np.array([[7, 0], [3, 0]], dtype=np.uint64))
    (finding,) = check(program, image())
    assert str(finding) == "illegal: Instruction 0: An opcode must be one of 0..4, not 7."
    (finding,) = check(Program(TINY, np.zeros((0, 2), np.uint64)), image())
    assert finding.message.startswith("A program must contain FINISH")
