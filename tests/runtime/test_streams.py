"""What is read off instructions in bulk, against the same one instruction at a time."""

from __future__ import annotations

import pytest

from tests.configs import SMALL
from tests.programs import PROGRAMS
from vdla.config import Config
from vdla.isa import Load, Store, decode, element_bytes, module_of
from vdla.runtime.streams import MODULES, bytes_moved, modules_of, most_cycles


@pytest.mark.parametrize("config", SMALL, ids=lambda config: config.name)
@pytest.mark.parametrize("name", PROGRAMS)
def test_in_bulk_as_one_by_one(name: str, config: Config) -> None:
    program = PROGRAMS[name](config).program
    instructions = decode(program.instructions, config)
    assert [MODULES[m] for m in modules_of(program)] == [module_of(i) for i in instructions]
    assert bytes_moved(program).tolist() == [
        i.y_size * i.x_size * element_bytes(i.memory_type, config)
        if isinstance(i, (Load, Store))
        else 0
        for i in instructions
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_limit_is_far_above_what_a_program_takes(name: str) -> None:
    cycle = pytest.importorskip("vdla.sim.cycle", reason="needs numba: pip install 'vdla[host]'")
    case = PROGRAMS[name](SMALL[0])
    taken = cycle.time(case.program, case.fresh()).cycles
    assert 4 * taken < most_cycles(case.program) < 1000 * taken
