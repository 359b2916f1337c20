"""Every token of correct programs, taken away: alone, and together with its partner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builder import Case
from tests.configs import MATRIX, SMALL
from tests.programs import PROGRAMS, matmul
from tests.random_programs import random_case
from tests.sim.dependence.oracle import conflicts, mutated, races, tokens, without_pairs
from vdla.config import TINY
from vdla.errors import ProgramError
from vdla.isa import decode
from vdla.program import Program
from vdla.sim import functional
from vdla.sim.dependence import Kind, check

CASES: dict[str, Callable[[], Case]] = {
    **{
        name: lambda name=name: PROGRAMS[name](TINY)
        for name in ("gemm_blocks1", "gemm_blocks2", "add_tensor", "padded_load_filled", "dense")
    },
    "matmul": lambda: matmul(TINY, size=64),
    "random": lambda: random_case(TINY, 5),
    "random-batch": lambda: random_case(SMALL[2], 6),
}


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
def test_correct_programs_have_no_findings(config) -> None:
    for case in [make(config) for make in PROGRAMS.values()]:
        assert check(case.program, case.dram) == [], case.name
    for seed in range(6):
        case = random_case(config, seed)
        assert check(case.program, case.dram) == [], case.name


@pytest.mark.parametrize("name", CASES)
def test_a_token_taken_away_is_reported(name: str) -> None:
    case = CASES[name]()
    config = case.program.config
    instructions = decode(case.program.instructions, config)
    removed = list(tokens(instructions))
    assert removed
    for index, flag in removed:
        changed = Program.from_instructions(mutated(instructions, (index, flag)), config)
        findings = check(changed, case.dram)
        tokens_wrong = [f for f in findings if f.kind in (Kind.DEADLOCK, Kind.UNBALANCED)]
        assert tokens_wrong, (index, flag)
        for finding in findings:
            assert finding.instructions, finding
            for concerned in finding.instructions[:4]:
                assert f"instruction {concerned} " in finding.message or finding.kind is (
                    Kind.UNBALANCED
                ), finding
        with pytest.raises(ProgramError, match="Deadlock after|Every token must be popped"):
            functional.run(changed, case.fresh())


@pytest.mark.parametrize("name", CASES)
def test_a_pair_taken_away_is_a_race_unless_another_path_orders_it(name: str) -> None:
    case = CASES[name]()
    config = case.program.config
    pairs = conflicts(case.program, case.dram)
    reported = 0
    for changed in without_pairs(decode(case.program.instructions, config)):
        findings = check(Program.from_instructions(changed, config), case.dram)
        found = {f.instructions for f in findings if f.kind is Kind.RACE}
        expected = races(changed, pairs)
        assert found <= expected
        assert bool(found) == bool(expected)
        assert {f.kind for f in findings} <= {Kind.RACE, Kind.UNFINISHED, Kind.UNWRITTEN}
        reported += bool(findings)
    assert reported
