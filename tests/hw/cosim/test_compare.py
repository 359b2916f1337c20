"""What a difference between the RTL and the models reads like."""

from __future__ import annotations

import pytest

from tests.hw.cosim.compare import Expected, check_memory, check_timing, differences
from tests.programs import load_store
from vdla.config import TINY
from vdla.runtime.rtl.run import NEVER, RtlResult
from vdla.sim import cycle


@pytest.fixture
def expected() -> Expected:
    case = load_store(TINY)
    return Expected(case, case.fresh(), cycle.time(case.program, case.fresh()))


def test_nothing_differs(expected: Expected) -> None:
    timing = expected.timing
    times = timing.start, timing.finish, timing.cycles
    assert differences(expected.case.program, times, times) == []


def test_the_first_difference_comes_first(expected: Expected) -> None:
    timing = expected.timing
    start, finish = timing.start.copy(), timing.finish.copy()
    start[3] = NEVER
    start[2] += 1
    finish[2:] += 5
    found = RtlResult(expected.case.program, timing.cycles + 5, start, finish, {})
    with pytest.raises(AssertionError) as caught:
        check_timing(expected, found)
    name, first, *others = str(caught.value).splitlines()
    assert name == "load_store-tiny"
    assert first == (
        f"compute must start instruction 2 in cycle {timing.start[2]}, and the RTL does in cycle "
        f"{timing.start[2] + 1} (and 0 more): shr       uop=0:1 loop=1,36 dst=0,1 imm=0 ; push_next"
    )
    assert f"store must start instruction 3 in cycle {timing.start[3]}, and the RTL does never" in (
        "\n".join(others)
    )
    assert others[-1] == (
        f"the total must be {timing.cycles} cycles, and the RTL takes {timing.cycles + 5}"
    )


def test_memory_that_differs_is_named_by_its_first_byte(expected: Expected) -> None:
    memory = expected.memory.copy()
    memory[[40, 41, 99]] ^= 1
    old, new = expected.memory[40], memory[40]
    text = f"load_store-tiny: 3 bytes of memory differ, from 0x28: {new}, not {old}"
    with pytest.raises(AssertionError, match=text):
        check_memory(expected, memory)
