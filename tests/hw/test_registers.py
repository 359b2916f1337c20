"""The register map: bits and offsets that do not collide, and a current page."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from vdla.isa import TOKEN_FLAGS, MemoryType
from vdla.registers import (
    BASES,
    CAPABILITIES,
    COUNTERS,
    IDENTITY,
    Access,
    ErrorCause,
    ErrorModule,
    Register,
)
from vdla.registers.manual import render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "registers.md"


def test_generated_tables_are_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert render(text) == text, "run: python -m vdla.registers.manual docs/registers.md"


def test_every_register_cause_and_event_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [r.name for r in Register if f"`{r.name}`" not in text] == []
    assert [c.name for c in ErrorCause if f"`{c.name.lower()}` | {c.doc}" not in text] == []
    assert text.count("| load | `") == 5


def test_registers_follow_each_other_without_overlap() -> None:
    for one, next_one in pairwise(Register):
        assert one % 4 == 0
        assert one + 4 * one.words <= next_one
        assert one.words == 1 or one % 8 == 0  # a 64-bit bus would read both words at once
    assert max(Register) < 4096


@pytest.mark.parametrize("register", Register)
def test_fields_do_not_overlap(register: Register) -> None:
    taken = 0
    for bits in register.fields:
        assert taken & bits.mask == 0
        taken |= bits.mask
    assert taken < 1 << 32 * register.words


def test_the_driver_finds_its_constants() -> None:
    assert (Register.ID, Register.CONTROL, Register.STATUS) == (0, 0x20, 0x24)
    assert IDENTITY.to_bytes(4, "little") == b"VDLA"
    assert Register.CONTROL.bits("soft_reset").mask == 2
    assert Register.ERROR.bits("module").of(0x1234) == 0x12
    assert set(BASES) == set(MemoryType)
    assert BASES[MemoryType.ACC_8BIT] is Register.ACC_8BIT_BASE
    assert CAPABILITIES == ("pad_value", "overwrite", "rq", "acc_8bit")
    with pytest.raises(KeyError, match="CONTROL has no field stop"):
        Register.CONTROL.bits("stop")


def test_counters_speak_the_language_of_the_cycle_model() -> None:
    named = {
        module: [c.event for c in COUNTERS if c.module == module]
        for module in ["load", "compute", "store", "fetch"]
    }
    for module, flags in TOKEN_FLAGS.items():
        pops = [flag for flag in flags if flag.startswith("pop")]
        assert named[module.value] == ["busy", "memory", *pops, "push", "instructions"]
    assert named["fetch"] == ["memory", "full"]
    assert all(c.register.fields[0].access is Access.READ for c in COUNTERS)


def test_codes_are_pinned() -> None:
    """A driver of another version reads them: append, never renumber."""
    assert [cause.value for cause in ErrorCause] == list(range(13))
    assert ErrorCause(9) is ErrorCause.CYCLE_LIMIT
    assert [module.name for module in ErrorModule] == [
        "FETCH",
        "LOAD",
        "COMPUTE",
        "STORE",
        "CONTROL",
    ]
