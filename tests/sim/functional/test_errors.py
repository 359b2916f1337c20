"""Programs that must not run: each message names the instruction, its module and its text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.illegal import BAD_ENCODINGS, OUT_OF_RANGE
from vdla.config import TINY
from vdla.errors import ProgramError
from vdla.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Load,
    MemoryType,
    ModuleName,
    Store,
    TokenQueue,
    decode,
    encode,
    encode_uops,
    line_of,
    module_of,
)
from vdla.program import Program
from vdla.sim import functional


@pytest.mark.parametrize("name", BAD_ENCODINGS)
def test_bad_encoding(name: str) -> None:
    case = BAD_ENCODINGS[name]
    with pytest.raises(ProgramError) as caught:
        functional.run(case.program, case.dram.copy())
    assert str(caught.value).startswith(f"Instruction {case.index}: {case.message}")


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_out_of_range(name: str) -> None:
    case = OUT_OF_RANGE[name]
    with pytest.raises(ProgramError) as caught:
        functional.run(case.program, case.dram.copy())
    instruction = decode(case.program.instructions, TINY)[case.index]
    where = f"Instruction 1 in {module_of(instruction).value} (`{line_of(instruction)}`): "
    assert str(caught.value) == where + case.message


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_one_less_is_in_range(name: str) -> None:
    """Each program one entry, element or micro-op shorter ends well."""
    case = OUT_OF_RANGE[name]
    program = decode(case.program.instructions, TINY)
    faulty = program[1]
    if isinstance(faulty, (Load, Store)):
        shorter = {"x_pad_1": 0, "sram_base": 0} if name != "store" else {"x_size": 1}
        if "memory" in name:
            shorter = {"dram_base": faulty.dram_base - 1}
        program[1] = replace(faulty, **shorter)
    elif name == "rq_parameters":
        program[1] = replace(faulty, uop_begin=0, uop_end=1)
    elif "uop" in name:
        kept = 512 if isinstance(faulty, Gemm) else 4
        program[1] = replace(faulty, uop_end=kept)
        if isinstance(faulty, Gemm):  # what was never loaded must not be executed either
            program[1] = replace(faulty, uop_begin=0, uop_end=4)
    else:
        program[1] = replace(faulty, iter_in=2)
    functional.run(Program.from_instructions(program, TINY), case.dram.copy())


def test_no_finish() -> None:
    program = Program(TINY, np.zeros((2, 2), np.uint64))
    message = "A program must contain FINISH; none of its 2 instructions is one."
    with pytest.raises(ProgramError, match=message):
        functional.run(program, np.zeros(16, np.uint8))


def test_what_stands_behind_finish_may_be_anything() -> None:
    words = encode([Finish()], TINY)
    words = np.concatenate([words, np.array([[7, 7]], np.uint64)])
    result = functional.run(Program(TINY, words), np.zeros(16, np.uint8))
    assert result.instructions[ModuleName.COMPUTE] == 1


def test_leftover_tokens() -> None:
    load = Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=1, push_next=True)
    program = Program.from_instructions([load, Finish()], TINY)
    with pytest.raises(ProgramError) as caught:
        functional.run(program, np.zeros(16, np.uint8))
    assert str(caught.value) == (
        "Every token must be popped before the program ends:\n"
        "  1 token remains in load->compute, pushed by instruction 0 "
        "(`load.inp  sram=0 dram=0x0 x=1 ; push_next`)."
    )
    result = functional.run(program, np.zeros(16, np.uint8), allow_leftover=True)
    assert result.leftover == {TokenQueue.LOAD_TO_COMPUTE: [0]}


def test_deadlock() -> None:
    load = Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=1)
    program = Program.from_instructions([load, Finish(pop_prev=True)], TINY)
    with pytest.raises(ProgramError) as caught:
        functional.run(program, np.zeros(16, np.uint8))
    assert str(caught.value) == (
        "Deadlock after 1 of 2 instructions:\n"
        "  compute is stuck at instruction 1 (`finish    ; pop_prev`): it waits for token 1 of "
        "load->compute; the program pushes only 0 there, so push 1 by load is missing."
    )


def test_runs_share_no_state() -> None:
    """Neither tokens nor scratchpads survive a run: VTA's simulator kept its tokens."""
    load = Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=1, push_next=True)
    pusher = Program.from_instructions([load, Finish()], TINY)
    functional.run(pusher, np.zeros(16, np.uint8), allow_leftover=True)
    popper = Program.from_instructions([Finish(pop_prev=True)], TINY)
    with pytest.raises(ProgramError, match="Deadlock after 0 of 1"):
        functional.run(popper, np.zeros(16, np.uint8))


def test_cycle_limit() -> None:
    """3 micro-ops need 3 cycles at least; the limit is checked before they run."""
    dram = encode_uops([0], [0], [0], TINY).view(np.uint8)
    endless = {"uop_begin": 0, "uop_end": 1, "iter_out": 16383, "iter_in": 16383}
    uops = Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=0, x_size=1)
    three = Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=1, iter_in=3, use_imm=True)
    program = Program.from_instructions([uops, three, Finish()], TINY)
    assert functional.run(program, dram.copy(), cycle_limit=3).alu_uops == 3
    with pytest.raises(ProgramError, match="must end within 2 cycles"):
        functional.run(program, dram.copy(), cycle_limit=2)
    program = Program.from_instructions([uops, Gemm(**endless), Finish()], TINY)
    with pytest.raises(ProgramError, match="Instruction 1 in compute .*within 1000 cycles"):
        functional.run(program, dram.copy(), cycle_limit=1000)


def test_memory_image_must_be_bytes() -> None:
    program = Program.from_instructions([Finish()], TINY)
    message = r"must be uint8 of shape \(bytes,\) or \(images, bytes\), not int8 of \(4,\)"
    with pytest.raises(ProgramError, match=message):
        functional.run(program, np.zeros(4, np.int8))


def test_micro_ops_that_differ_between_images() -> None:
    uops = Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=0, x_size=1)
    program = Program.from_instructions([uops, Finish()], TINY)
    images = np.array([[1, 0, 0, 0], [2, 0, 0, 0]], np.uint8)
    with pytest.raises(ProgramError, match="Micro-ops must be the same for all images"):
        functional.run(program, images)


def test_weights_may_differ_between_images() -> None:
    uop = Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=8, x_size=1)
    inp = Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=1)
    wgt = Load(memory_type=MemoryType.WGT, sram_base=0, dram_base=1, x_size=1, push_next=True)
    gemm = Gemm(uop_begin=0, uop_end=1, overwrite=True, pop_prev=True, push_next=True)
    store = Store(sram_base=0, dram_base=9, x_size=1, pop_prev=True, push_prev=True)
    program = Program.from_instructions([uop, inp, wgt, gemm, store, Finish(pop_next=True)], TINY)
    images = np.zeros((2, 40), np.uint8)
    images[:, 0] = 5
    images[0, 16], images[1, 16] = 2, 3  # the first weight of the first output lane
    result = functional.run(program, images)
    assert images[:, 36].tolist() == [10, 15]
    assert result.gemm_uops == 1
    assert result.dram_read_bytes == {MemoryType.UOP: 4, MemoryType.INP: 4, MemoryType.WGT: 16}
    assert result.dram_written_bytes == {MemoryType.OUT: 4}
    assert result.instructions == {
        ModuleName.LOAD: 2,
        ModuleName.COMPUTE: 3,
        ModuleName.STORE: 1,
    }
