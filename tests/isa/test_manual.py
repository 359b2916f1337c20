"""The manual is current, and its listing assembles and runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from vdla.isa import FORMATS, layout
from vdla.isa.asm import assemble
from vdla.isa.manual import render
from vdla.sim import functional

PAGE = Path(__file__).resolve().parents[2] / "docs" / "isa.md"


def test_generated_tables_are_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert render(text) == text, "run: python -m vdla.isa.manual docs/isa.md"


def test_every_table_of_bits_is_on_the_page() -> None:
    marks = set(re.findall(r"<!-- table: ([\w-]+) -->", PAGE.read_text(encoding="utf-8")))
    assert marks >= {opcode.name.lower() for opcode in FORMATS} | {"uop", "rq", "tokens", "widths"}


def test_a_generated_table_by_hand() -> None:
    page = render("<!-- table: finish -->\nstale\n<!-- end -->\n")
    assert page.splitlines() == [
        "<!-- table: finish -->",
        "| bits | field | width | signed | meaning |",
        "| --- | --- | --- | --- | --- |",
        "| 0..2 | `opcode` | 3 |  | 3 |",
        "| 3 | `pop_prev` | 1 |  | wait for a token from the module before |",
        "| 4 | `pop_next` | 1 |  | wait for a token from the module behind |",
        "| 5 | `push_prev` | 1 |  | give a token to the module before |",
        "| 6 | `push_next` | 1 |  | give a token to the module behind |",
        "<!-- end -->",
    ]


def test_the_listing_runs() -> None:
    """Ones times a block of ones, padded with -3: 16 in the middle, -48 in the corner."""
    listing = re.findall(r"```\n(\.config.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    result = assemble(listing[-1])
    config = result.program.config
    dram = np.ones((0x800 + 196) * config.out_elem_bytes, np.uint8)
    result.place(dram)
    run = functional.run(result.program, dram)
    assert run.gemm_uops == 196
    assert run.state.acc[0, 15, 0].tolist() == [16] * 16
    stored = dram[0x800 * 16 :].view(np.int8).reshape(14, 14, 16)
    assert stored[0, 0, 0] == 0  # max(-48, 0): the corner is padding
    assert stored[1, 1, 0] == 16
    assert run.state.acc[0, 0, 0, 0] == 0
    assert sum(bits.width for bits in layout(next(iter(FORMATS)), config)) == 128
