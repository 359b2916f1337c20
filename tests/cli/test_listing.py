from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.config import PYNQ_Z1, TINY
from vdla.isa import Finish, Load, MemoryType, encode
from vdla.module import MemoryUse, Module, Segment, save
from vdla.program import Program

PROGRAM = [
    Load(
        memory_type=MemoryType.INP,
        sram_base=0,
        dram_base=16,
        y_size=14,
        x_size=14,
        x_stride=56,
        push_next=True,
    ),
    Finish(pop_prev=True),
]
LISTING = """\
.config pynq-z1
load.inp  sram=0 dram=0x10 y=14 x=14 stride=56 ; push_next
finish    ; pop_prev
"""


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "a.bin"
    path.write_bytes(encode(PROGRAM, PYNQ_Z1).tobytes())
    return path


def test_bare_instructions_are_listed(vdla_command: Any, binary: Path) -> None:
    outcome = vdla_command("disasm", str(binary))
    assert (outcome.code, outcome.out) == (0, LISTING)


def test_a_listing_as_json_is_lines(vdla_command: Any, binary: Path) -> None:
    (lines,) = json.loads(vdla_command("disasm", str(binary), "--json").out)
    assert lines == LISTING.splitlines()


def test_a_torn_binary_is_refused(vdla_command: Any, binary: Path) -> None:
    binary.write_bytes(binary.read_bytes()[:-3])
    outcome = vdla_command("disasm", str(binary))
    assert outcome.code == 2
    assert outcome.err == (
        f"vdla: Bare instructions must take a multiple of 16 bytes, not 29: {binary}\n"
    )


def test_a_missing_file_is_refused(vdla_command: Any, tmp_path: Path) -> None:
    outcome = vdla_command("disasm", str(tmp_path / "a.bin"))
    assert outcome.code == 2
    assert outcome.err.startswith("vdla: A program must be a readable file: ")


def test_text_that_is_none_is_refused(vdla_command: Any, tmp_path: Path) -> None:
    outcome = vdla_command("asm", str(tmp_path / "a.s"), "-o", str(tmp_path / "a.bin"))
    assert outcome.code == 2
    assert outcome.err.startswith("vdla: A program in assembly must be a text file: ")


def test_a_listing_assembles_to_the_same_bytes(
    vdla_command: Any, binary: Path, tmp_path: Path
) -> None:
    text, again = tmp_path / "a.s", tmp_path / "b.bin"
    text.write_text(vdla_command("disasm", str(binary)).out)
    outcome = vdla_command("asm", str(text), "-o", str(again))
    assert (outcome.code, outcome.err) == (0, "")
    assert again.read_bytes() == binary.read_bytes()


def test_micro_ops_go_to_a_file_of_their_own(vdla_command: Any, tmp_path: Path) -> None:
    text, output, uops = tmp_path / "a.s", tmp_path / "a.bin", tmp_path / "u.bin"
    text.write_text(".config tiny\n.uop 2: 1,0,0 7\nfinish\n")
    outcome = vdla_command("asm", str(text), "-o", str(output), "--uops", str(uops))
    assert outcome.out == f"{output}: 1 instructions for tiny\n"
    # Micro-ops 2 and 3; dst is the lowest field, so 1,0,0 is the word 1.
    assert uops.read_bytes() == bytes(8) + bytes([1, 0, 0, 0, 7, 0, 0, 0])


def test_micro_ops_left_out_are_mentioned(vdla_command: Any, tmp_path: Path) -> None:
    text, output = tmp_path / "a.s", tmp_path / "a.bin"
    text.write_text(".uop 0: 1,0,0\nfinish\n")
    outcome = vdla_command("asm", str(text), "-o", str(output), "--json")
    assert outcome.err == f"1 micro-ops are not in {output}; --uops FILE.bin writes them\n"
    report = json.loads(outcome.out)
    assert (report["instructions"], report["uops"], report["config"]) == (1, 1, "pynq-z1")


def test_a_mistake_in_the_text_names_its_line(vdla_command: Any, tmp_path: Path) -> None:
    text = tmp_path / "a.s"
    text.write_text("finish\n.nonsense\n")
    outcome = vdla_command("asm", str(text), "-o", str(tmp_path / "a.bin"))
    assert outcome.code == 2
    assert outcome.err.startswith("vdla: Line 2: a directive must be one of ")


def test_a_compiled_file_lists_its_micro_ops_and_assembles_again(
    vdla_command: Any, tmp_path: Path
) -> None:
    program = Program.from_instructions(
        [
            Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=4, x_size=2),
            Load(memory_type=MemoryType.UOP, sram_base=2, dram_base=5, x_size=2),
            Load(memory_type=MemoryType.UOP, sram_base=4, dram_base=9, x_size=1),
            Finish(),
        ],
        TINY,
        labels=["conv1"],
        layer_of=[0, 0, 0, -1],
    )
    memory = np.arange(12, dtype="<u4")  # the micro-op at address n is the word n: dst n, src 0
    module = Module(
        name="net",
        config=TINY,
        tensors={},
        layers=(),
        inputs=(),
        outputs=(),
        steps=(),
        programs=(program,),
        buffers=(),
        segments=(Segment(8, memory.view(np.uint8)[8:]),),
        arena_bytes=memory.nbytes,
        memory=MemoryUse(constants=0, activations=0, activations_unshared=0, micro_ops=40),
    )
    compiled, text, output = tmp_path / "a.vdla", tmp_path / "a.s", tmp_path / "a.bin"
    save(module, compiled)
    refused = vdla_command("disasm", str(compiled), "--program", "1")
    assert refused.code == 2
    assert "--program must be one of the 1 programs of" in refused.err
    outcome = vdla_command("disasm", str(compiled), "--program", "0")
    assert outcome.out == (
        ".config tiny\n"
        ".uop 0x4: 4,0,0 5,0,0 6,0,0\n"
        ".uop 0x9: 9,0,0\n"
        '.layer "conv1"\n'
        "load.uop  sram=0 dram=0x4 x=2\n"
        "load.uop  sram=2 dram=0x5 x=2\n"
        "load.uop  sram=4 dram=0x9 x=1\n"
        ".layer\n"
        "finish\n"
    )
    text.write_text(outcome.out)
    assert vdla_command("asm", str(text), "-o", str(output)).code == 0
    assert output.read_bytes() == program.instructions.tobytes()
