"""Assembly text: both ways for everything legal, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.configs import MATRIX
from tests.isa.strategies import CONFIGS, instructions
from tests.random_programs import random_case
from vdla.config import PYNQ_Z1, TINY
from vdla.errors import AssemblyError
from vdla.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Load,
    MemoryType,
    Store,
    decode,
    encode_one,
    encode_uops,
    line_of,
)
from vdla.isa.asm import assemble, disassemble
from vdla.program import Program


@given(st.data(), st.sampled_from(CONFIGS))
@settings(max_examples=300, deadline=None)
def test_an_instruction_survives_its_line(data: st.DataObject, config) -> None:
    instruction = data.draw(instructions(config))
    (found,) = decode(assemble(line_of(instruction), config).program.instructions, config)
    assert found == instruction


@given(
    st.sampled_from(CONFIGS),
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=4),
    st.lists(st.integers(0, 2**32 - 1), max_size=20),
)
@settings(max_examples=300, deadline=None)
def test_any_bits_survive(config, words, uops) -> None:
    program = Program(config, np.array(words, dtype=np.uint64).reshape(-1, 2))
    text = disassemble(program, [(0x40, np.array(uops, np.uint32))])
    again = assemble(text)
    assert again.program.config == config
    np.testing.assert_array_equal(again.program.instructions, program.instructions)
    assert [w for _, run in again.uops for w in run.tolist()] == uops
    assert disassemble(again.program, again.uops) == text


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
def test_a_program_with_layers_survives(config) -> None:
    program = random_case(config, 1).program
    layers = np.arange(len(program)) // 20 - 1
    labels = tuple(f'layer #{i} "x"' for i in range(layers.max() + 1))
    named = Program(config, program.instructions, labels, layers)
    again = assemble(disassemble(named, indices=True)).program
    np.testing.assert_array_equal(again.instructions, program.instructions)
    np.testing.assert_array_equal(again.layer_of, layers)
    assert again.labels == labels


LINES = [
    (
        Load(
            memory_type=MemoryType.INP,
            sram_base=0,
            dram_base=0x10,
            y_size=14,
            x_size=14,
            x_stride=56,
            y_pad_0=1,
            x_pad_1=2,
            pad_value=-3,
            push_next=True,
        ),
        "load.inp  sram=0 dram=0x10 y=14 x=14 stride=56 pad=1,0,0,2 fill=-3 ; push_next",
    ),
    (
        Load(memory_type=MemoryType.ACC_8BIT, sram_base=5, dram_base=0, x_size=1, pop_prev=True),
        "load.acc8 sram=5 dram=0x0 x=1 ; pop_prev",
    ),
    (
        Store(sram_base=3, dram_base=255, x_size=2, pop_prev=True, push_prev=True),
        "store     sram=3 dram=0xff x=2 ; pop_prev push_prev",
    ),
    (
        Gemm(uop_begin=0, uop_end=9, iter_out=14, dst_factor_out=14, wgt_factor_in=2),
        "gemm      uop=0:9 loop=14,1 dst=14,0 wgt=0,2",
    ),
    (Gemm(uop_begin=0, uop_end=1, reset=True), "gemm.reset uop=0:1"),
    (Gemm(uop_begin=1, uop_end=2, overwrite=True), "gemm.overwrite uop=1:2"),
    (
        Alu(alu_opcode=AluOp.MAX, uop_begin=0, uop_end=1, use_imm=True),
        "max       uop=0:1 imm=0",
    ),
    (Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=1), "add       uop=0:1"),
    (
        Alu(alu_opcode=AluOp.RQ, uop_begin=0, uop_end=1, imm=0x7F80),
        "rq        uop=0:1 clip=-128,127",
    ),
    (Finish(pop_next=True), "finish    ; pop_next"),
]


@pytest.mark.parametrize(("instruction", "line"), LINES, ids=[line for _, line in LINES])
def test_listing(instruction, line: str) -> None:
    assert line_of(instruction) == line
    (word,) = assemble(line).program.instructions.tolist()
    assert word[0] | word[1] << 64 == encode_one(instruction, PYNQ_Z1)


def test_directives() -> None:
    result = assemble("""
        .config tiny            # before anything that is encoded
        .uop 0x10: 0,0,0 1,2,3
        .uop 0x12: 0xffffffff   # continues the run
        .uop 8: 0,0,1
        .layer conv1
        load.uop sram=0 dram=0x10 x=3
        .layer
        finish
    """)
    assert result.program.config == TINY
    assert result.program.labels == ("conv1",)
    assert result.program.layer_of.tolist() == [0, -1]
    (first, run), (second, other) = result.uops
    assert (first, second) == (16, 8)
    assert run.tolist() == [*encode_uops([0, 1], [0, 2], [0, 3], TINY), 0xFFFFFFFF]
    dram = np.zeros((2, 100), np.uint8)
    result.place(dram, base=4)
    assert (dram[:, 68:80].copy().view("<u4") == run).all()
    assert (dram[:, 36:40].copy().view("<u4") == other).all()
    with pytest.raises(AssemblyError, match="must hold the micro-ops at 0x10: they end at byte 76"):
        result.place(np.zeros(70, np.uint8))


ERRORS = {
    "gem uop=0:1": "Line 1: gem is no instruction: did you mean gemm?",
    "finish\n\nxyz": "Line 3: xyz is no instruction: add, ",
    "load.inp sram=0 dram=0": "Line 1: load.inp must have x=.",
    "load.out sram=0 dram=0 x=1": "is no instruction",
    "load.inp sram=0 dram=0 x=q": "Line 1: x must be an integer, not 'q'.",
    "load.inp sram=0 dram=0 x=1 pad=1,2": "pad must have 4 values separated by ',', not 1,2.",
    "gemm uop=0,1": "uop must have 2 values separated by ':', not 0,1.",
    "store sram=0 dram=0 x=1 fill=3": "an operand must be one of sram=, dram=, y=, x=, stride=, "
    "not fill=3.",
    "finish x=1": "an operand must be one of none, not x=1.",
    "add uop=0:1 imm=1 imm=2": "imm must stand once.",
    "add uop=0:1 imm=40000": "ALU imm must lie in -32768..32767 on pynq-z1, not 40000.",
    "rq uop=0:1": "rq must have clip=.",
    "rq uop=0:1 clip=-129,0": "clip must lie in -128..127, not -129.",
    "rq uop=0:1 imm=3": "an operand must be one of",
    "finish ; pop_both": "a flag must be one of pop_prev, pop_next, push_prev, push_next, not",
    "load.inp sram=0 dram=0 x=1 ; pop_prev": "must not set pop_prev: the module has no neighbour",
    ".data 1": "a directive must be one of .config, .layer, .uop, .word, not .data.",
    ".config pynq-z9": "A configuration name must be one of",
    ".config batch=3": "batch must be a positive power of two, not 3.",
    "finish\n.config tiny": "Line 2: .config must stand once, before all instructions",
    ".uop 3 0,0,0": ".uop must be followed by an address, a colon and micro-ops.",
    ".uop 3: 0,0": "a micro-op must be dst,src,wgt or one 32-bit word, not 0,0.",
    ".uop 3: 2048,0,0": "A micro-op's dst must lie in 0..2047 on pynq-z1, not 2048.",
    ".word 1": ".word must have two halves, the low one first, not 1.",
    ".word 1 0x10000000000000000": "half an instruction must fit 64 bits.",
    '.layer "a': "a layer's name must be a word or a quoted string",
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_name_line_and_rule(text: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble(text)
    assert ERRORS[text] in str(caught.value)
    assert str(caught.value).startswith("Line ")


def test_another_configuration_is_refused() -> None:
    assert assemble(".config tiny\nfinish", TINY).program.config == TINY
    with pytest.raises(AssemblyError, match="asked for, tiny, not pynq-z1"):
        assemble(".config pynq-z1\nfinish", TINY)


def test_illegal_words_are_listed_with_their_reason() -> None:
    program = Program(TINY, np.array([[7, 0], [1, 0]], dtype=np.uint64))
    assert disassemble(program).splitlines()[1:] == [
        ".word 0x0000000000000007 0x0000000000000000  # An opcode must be one of 0..4, not 7.",
        ".word 0x0000000000000001 0x0000000000000000  # STORE must read OUT (4), not UOP (0).",
    ]
