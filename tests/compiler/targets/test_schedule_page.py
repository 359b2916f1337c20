"""The example of docs/schedule.md runs as it is printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vdla.isa.asm import disassemble
from vdla.sim.dependence import check

PAGE = Path(__file__).resolve().parents[3] / "docs" / "schedule.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    found: dict[str, Any] = {}
    exec(compile("\n".join(code), str(PAGE), "exec"), found)
    return found


def test_the_example_computes_what_numpy_does(names: dict[str, Any]) -> None:
    assert (names["operator"].read(names["memory"], names["result"]) == names["expected"]).all()


def test_the_example_has_no_race(names: dict[str, Any]) -> None:
    assert check(names["operator"].program, names["memory"]) == []


def test_the_instructions_of_the_example(
    names: dict[str, Any], golden: Callable[[str, str], None]
) -> None:
    golden(disassemble(names["operator"].program), "schedule_page.txt")
