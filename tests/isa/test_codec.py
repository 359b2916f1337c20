"""Encoding: bit positions against VTA's, both ways for everything legal, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.illegal import BAD_ENCODINGS
from tests.isa.strategies import CONFIGS, instructions
from vdla.config import PYNQ_Z1, TINY
from vdla.errors import EncodingError
from vdla.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Load,
    MemoryType,
    Opcode,
    Store,
    decode,
    decode_columns,
    decode_one,
    decode_uops,
    encode,
    encode_one,
    encode_uops,
    layout,
)

# Lowest and highest bit of each field of VTA's default configuration, as its manual gives them,
# less what the extensions took: dram_base ends at 55 and GEMM's bit 63 was free.
VTA = {
    Opcode.LOAD: {
        "opcode": (0, 2),
        "pop_prev": (3, 3),
        "pop_next": (4, 4),
        "push_prev": (5, 5),
        "push_next": (6, 6),
        "memory_type": (7, 9),
        "sram_base": (10, 25),
        "dram_base": (26, 55),
        "pad_value": (56, 63),
        "y_size": (64, 79),
        "x_size": (80, 95),
        "x_stride": (96, 111),
        "y_pad_0": (112, 115),
        "y_pad_1": (116, 119),
        "x_pad_0": (120, 123),
        "x_pad_1": (124, 127),
    },
    Opcode.GEMM: {
        "reset": (7, 7),
        "uop_begin": (8, 20),
        "uop_end": (21, 34),
        "iter_out": (35, 48),
        "iter_in": (49, 62),
        "overwrite": (63, 63),
        "dst_factor_out": (64, 74),
        "dst_factor_in": (75, 85),
        "src_factor_out": (86, 96),
        "src_factor_in": (97, 107),
        "wgt_factor_out": (108, 117),
        "wgt_factor_in": (118, 127),
    },
    Opcode.ALU: {
        "src_factor_in": (97, 107),
        "alu_opcode": (108, 110),
        "use_imm": (111, 111),
        "imm": (112, 127),
    },
}


@pytest.mark.parametrize("opcode", VTA)
def test_bits_stand_where_vta_has_them(opcode: Opcode) -> None:
    found = {b.name: (b.lsb, b.lsb + b.width - 1) for b in layout(opcode, PYNQ_Z1)}
    assert found | VTA[opcode] == found


def test_words_worked_out_by_hand() -> None:
    load = Load(
        memory_type=MemoryType.INP,
        sram_base=3,
        dram_base=0x10,
        y_size=14,
        x_size=7,
        x_stride=56,
        y_pad_0=1,
        y_pad_1=2,
        x_pad_0=3,
        x_pad_1=4,
        pad_value=-2,
        push_next=True,
    )
    low = 0xFE << 56 | 0x10 << 26 | 3 << 10 | 2 << 7 | 1 << 6
    high = 0x4321 << 48 | 56 << 32 | 7 << 16 | 14
    assert encode_one(load, PYNQ_Z1) == high << 64 | low
    alu = Alu(alu_opcode=AluOp.SHR, uop_begin=1, uop_end=2, use_imm=True, imm=-1, pop_prev=True)
    low = 1 << 49 | 1 << 35 | 2 << 21 | 1 << 8 | 1 << 3 | 4
    high = 0xFFFF << 48 | 1 << 47 | 3 << 44
    assert encode_one(alu, PYNQ_Z1) == high << 64 | low
    gemm = Gemm(uop_begin=0, uop_end=8192, iter_out=16383, wgt_factor_in=1023, overwrite=True)
    low = 1 << 63 | 1 << 49 | 16383 << 35 | 8192 << 21 | 2
    assert encode_one(gemm, PYNQ_Z1) == 1023 << 118 | low
    assert encode_one(Store(sram_base=1, dram_base=2, x_size=3), PYNQ_Z1) == (
        3 << 80 | 1 << 64 | 2 << 26 | 1 << 10 | 4 << 7 | 1
    )
    assert encode_one(Finish(pop_next=True), PYNQ_Z1) == 1 << 4 | 3
    assert encode_uops([5], [3], [1], PYNQ_Z1).tolist() == [1 << 22 | 3 << 11 | 5]
    # TINY: 9 bits of dst, 9 of src, 8 of wgt
    assert encode_uops([5], [3], [1], TINY).tolist() == [1 << 18 | 3 << 9 | 5]


def test_words_are_little_endian_low_word_first() -> None:
    words = encode([Finish()], PYNQ_Z1)
    assert words.dtype == np.dtype("<u8")
    assert words.tobytes() == bytes([3]) + bytes(15)


@given(st.data(), st.sampled_from(CONFIGS))
@settings(max_examples=300, deadline=None)
def test_instructions_survive(data: st.DataObject, config) -> None:
    program = data.draw(st.lists(instructions(config), max_size=4))
    words = encode(program, config)
    assert decode(words, config) == program
    columns = decode_columns(words, config)
    for row, instruction in enumerate(program):
        for bits in layout(instruction.opcode, config):
            assert columns[bits.name][row] == int(getattr(instruction, bits.name))


@given(st.data(), st.sampled_from(CONFIGS))
@settings(max_examples=100, deadline=None)
def test_micro_ops_survive(data: st.DataObject, config) -> None:
    depths = (config.dst_index_bits, config.src_index_bits, config.wgt_index_bits)
    uop = st.tuples(*(st.integers(0, (1 << bits) - 1) for bits in depths))
    uops = np.array(data.draw(st.lists(uop, min_size=1, max_size=20)))
    dst, src, wgt = uops.T
    found = np.stack(decode_uops(encode_uops(dst, src, wgt, config), config), axis=1)
    np.testing.assert_array_equal(found, uops)


@pytest.mark.parametrize("name", BAD_ENCODINGS)
def test_illegal_bits_are_refused(name: str) -> None:
    case = BAD_ENCODINGS[name]
    with pytest.raises(EncodingError) as caught:
        decode(case.program.instructions, TINY)
    assert str(caught.value).startswith(f"Instruction {case.index}: {case.message}")


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            Load(memory_type=MemoryType.INP, sram_base=65536, dram_base=0, x_size=1),
            "LOAD sram_base must lie in 0..65535 on pynq-z1, not 65536.",
        ),
        (
            Load(memory_type=MemoryType.INP, sram_base=0, dram_base=1 << 30, x_size=1),
            "LOAD dram_base must lie in 0..1073741823 on pynq-z1, not 1073741824.",
        ),
        (
            Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=1, pad_value=128),
            "LOAD pad_value must lie in -128..127 on pynq-z1, not 128.",
        ),
        (
            Gemm(uop_begin=0, uop_end=1, dst_factor_in=2048),
            "GEMM dst_factor_in must lie in 0..2047 on pynq-z1, not 2048.",
        ),
        (
            Load(memory_type=MemoryType.OUT, sram_base=0, dram_base=0, x_size=1),
            "LOAD must fill UOP, WGT, INP or ACC, not OUT (4).",
        ),
        (
            Store(sram_base=0, dram_base=0, x_size=1, push_next=True),
            "An instruction of the store module must not set push_next: the module has no "
            "neighbour on that side.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(instruction, message: str) -> None:
    with pytest.raises(EncodingError) as caught:
        encode_one(instruction, PYNQ_Z1)
    assert str(caught.value) == message


def test_compute_loads_may_use_both_sides() -> None:
    for kind in (MemoryType.UOP, MemoryType.ACC, MemoryType.ACC_8BIT):
        flags = dict.fromkeys(("pop_prev", "pop_next", "push_prev", "push_next"), True)
        load = Load(memory_type=kind, sram_base=0, dram_base=0, x_size=1, **flags)
        assert decode_one(encode_one(load, TINY), TINY) == load
