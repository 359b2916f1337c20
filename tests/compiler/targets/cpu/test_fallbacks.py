"""Operations without an instruction: the same numbers as numpy's, on every level of the host."""

from __future__ import annotations

import pytest

from tests.compiler.targets.cpu.arithmetic import arithmetic_library
from tests.compiler.targets.cpu.arithmetic_check import check
from vdla.compiler.targets.cpu import LEVELS, Target, supports
from vdla.runtime.native import Library


@pytest.mark.parametrize("level", [name for name, one in LEVELS.items() if supports(one)])
def test_arithmetic_is_numpys(level: str) -> None:
    with Library(arithmetic_library(level)) as library:
        assert check(library) == 36


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_links_without_a_compilers_library(level: str) -> None:
    assert arithmetic_library(level)[18] == {"x86": 62, "aar": 183, "arm": 40}[level[:3]]
    assert Target.named(level).level == level
