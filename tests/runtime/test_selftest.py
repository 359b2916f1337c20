"""The self-test passes what is right, and finds a planted fault in the grade that it belongs to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.configs import MATRIX
from vdla.config import TINY, Config
from vdla.errors import DeviceError
from vdla.isa import Alu, AluOp, Gemm, Instruction, Load, MemoryType, Store, decode
from vdla.program import Program
from vdla.runtime.devices import open_device
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.selftest import Report, checks, selftest
from vdla.runtime.selftest.compare import counted_wrong
from vdla.sim import functional

Change = Callable[[Instruction], Instruction]


def grades(report: Report) -> set[str]:
    return {outcome.grade for outcome in report.failures}


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
def test_the_functional_model_passes(config: Config) -> None:
    report = selftest(FunctionalDevice(config))
    assert report.failures == ()
    assert {outcome.grade for outcome in report.outcomes if outcome.status == "skipped"} == {
        "registers",
        "network",
    }


def test_the_cycle_model_passes_to_the_cycle() -> None:
    report = selftest(open_device("cycle", TINY), exact=True)
    assert report.failures == ()
    counted = [outcome for outcome in report.outcomes if outcome.cycles is not None]
    assert len(counted) == len(checks(TINY))
    assert {outcome.ratio for outcome in counted} == {1.0}


def test_programs_read_and_write_nothing_but_their_memory() -> None:
    """On a board other memory holds other things."""
    for check in checks(TINY):
        guard = np.full(4096, 0xA7, np.uint8)
        memory = np.concatenate([guard, check.memory, guard])
        functional.run(check.program, memory, base=4096)
        assert (memory[:4096] == 0xA7).all()
        assert (memory[-4096:] == 0xA7).all()


class Faulty(FunctionalDevice):
    """Does something else than its programs say."""

    def __init__(self, change: Change, config: Config = TINY) -> None:
        super().__init__(config)
        self.change = change

    def launch(self, program: Program, base: int = 0) -> None:
        super().launch(changed(program, self.change), base)


def changed(program: Program, change: Change) -> Program:
    try:
        instructions = decode(program.instructions, program.config)
    except Exception:  # the illegal one
        return program
    return Program.from_instructions([change(i) for i in instructions], program.config)


def dropped(i: Alu | Gemm) -> Instruction:
    return replace(i, uop_end=i.uop_begin)


def without_op(op: AluOp) -> Change:
    return lambda i: dropped(i) if isinstance(i, Alu) and i.alu_opcode is op else i


def of_load(kind: MemoryType, **fields: Any) -> Change:
    return lambda i: replace(i, **fields) if isinstance(i, Load) and i.memory_type is kind else i


def gemm(i: Instruction) -> Instruction:
    plain = isinstance(i, Gemm) and not i.reset and not i.overwrite
    return replace(i, wgt_factor_out=0) if plain else i  # type: ignore[call-arg]


FAULTS: dict[str, tuple[Change, set[str]]] = {
    "multiplication does nothing": (without_op(AluOp.MUL), {"alu mul"}),
    "minimum does nothing": (without_op(AluOp.MIN), {"alu min"}),
    "maximum does nothing": (without_op(AluOp.MAX), {"alu max"}),
    "RQ does nothing": (without_op(AluOp.RQ), {"rq"}),
    "inputs are padded with 0": (of_load(MemoryType.INP, pad_value=0), {"load inp"}),
    "weights are padded with 0": (of_load(MemoryType.WGT, pad_value=0), {"load wgt"}),
    "micro-ops are padded with 0": (of_load(MemoryType.UOP, pad_value=0), {"load uop"}),
    "bytes are padded with 0": (of_load(MemoryType.ACC_8BIT, pad_value=0), {"load acc_8bit"}),
    "a GEMM's weights stand still": (gemm, {"gemm"}),
    "rows of a store follow each other": (
        lambda i: replace(i, x_stride=i.x_size) if isinstance(i, Store) and i.y_size > 1 else i,
        {"store"},
    ),
    "GEMM cannot overwrite": (
        lambda i: replace(i, overwrite=False) if isinstance(i, Gemm) else i,
        {"load inp", "load wgt", "gemm", "tokens"},
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows_in_its_grade(fault: str) -> None:
    change, expected = FAULTS[fault]
    report = selftest(Faulty(change))
    assert grades(report) == expected
    assert not report.passed


def test_a_flipped_bit_is_told_with_the_instruction_that_wrote_it() -> None:
    class Flips(FunctionalDevice):
        def wait(self) -> None:
            self._memory[0, 21] ^= 0x10

    report = selftest(Flips(TINY))
    zeros = next(o for o in report.failures if (o.grade, o.name) == ("store", "zeros"))
    assert zeros.detail == (
        "byte 0x15 must hold 0x00, not 0x10: instruction 2 (store sram=0 dram=0x1 x=48 ; "
        "pop_prev push_prev) writes there"
    )
    finish = report.failures[0]
    assert (finish.grade, finish.name) == ("store", "zeros")


def test_what_does_not_end_is_a_failure_and_what_follows_runs() -> None:
    never = Alu(alu_opcode=AluOp.ADD, uop_begin=0, uop_end=0, pop_prev=True)
    report = selftest(Faulty(lambda i: never if isinstance(i, Gemm) and i.overwrite else i))
    assert grades(report) == {"load inp", "load wgt", "gemm", "tokens"}
    assert "deadlock" in report.failures[0].detail or "token" in report.failures[0].detail
    assert next(o for o in report.outcomes if o.grade == "rq").status == "passed"


def test_a_device_that_is_gone_is_not_asked_again() -> None:
    class Gone(FunctionalDevice):
        launches = 0

        def launch(self, program: Program, base: int = 0) -> None:
            self.launches += 1
            if self.launches == 5:
                raise DeviceError("The bus refused an access.")
            super().launch(program, base)

    device = Gone(TINY)
    report = selftest(device)
    assert [o.detail for o in report.failures] == ["The bus refused an access."]
    assert device.launches == 5
    rest = report.outcomes[-1]
    assert (rest.status, rest.detail) == ("skipped", "no network was given")
    assert report.outcomes[-2].detail == "the device failed in load acc, a row"


def test_a_stop_that_is_missed_is_a_failure() -> None:
    class Careless(FunctionalDevice):
        def launch(self, program: Program, base: int = 0) -> None:
            try:
                super().launch(program, base)
            except Exception:
                return

    assert grades(selftest(Careless(TINY))) == {"stops"}


def test_cycles_are_held_to_the_model_only_where_they_must_be() -> None:
    device = open_device("cycle", TINY.replace(dram_latency_cycles=60))
    check = checks(TINY)[4]
    base = device.allocate(len(check.memory))
    device.write(base, check.memory)
    device.launch(check.program, base)
    found = device.counters()
    model = open_device("cycle", TINY)
    base = model.allocate(len(check.memory))
    model.write(base, check.memory)
    model.launch(check.program, base)
    right = model.counters()
    assert counted_wrong(found, right, exact=False) is None
    text = counted_wrong(found, right, exact=True)
    assert text == f"it must take {right.cycles} cycles, not {found.cycles}"
    fewer = {**right.events, "load": {**right.events["load"], "busy": 3}}
    text = counted_wrong(replace(found, events=fewer), right, exact=False)
    assert text == f"busy of load must count {right.events['load']['busy']}, not 3"


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    pytest.importorskip("amaranth", reason="install it with: pip install 'vdla[hw]'")
    try:
        opened = open_device("rtl", TINY)
    except DeviceError as error:
        pytest.skip(str(error))
    yield opened
    opened.close()


@pytest.mark.rtl
class TestRtl:
    def test_the_gateware_passes_to_the_cycle(self, device: Any) -> None:
        report = selftest(device, exact=True)
        assert [o for o in report.outcomes if o.status != "passed"] == [report.outcomes[-1]]
        assert report.outcomes[-1].grade == "network"

    @pytest.mark.parametrize(
        ("queue", "flags"),
        [
            ("load->compute", ("Gemm", "pop_prev")),
            ("compute->load", ("Load", "pop_next")),
            ("compute->store", ("Store", "pop_prev")),
            ("store->compute", ("Alu", "pop_next")),
        ],
    )
    def test_a_queue_that_nobody_waits_for(
        self, device: Any, queue: str, flags: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The flag is lost on the way to the machine."""
        kind, flag = flags

        def lost(i: Instruction) -> Instruction:
            if type(i).__name__ != kind or not getattr(i, flag):
                return i
            if isinstance(i, Alu) and i.uop_begin == i.uop_end:
                return i  # the last one waits, so that results are there
            return replace(i, **{flag: False})

        launch = device.launch
        monkeypatch.setattr(
            device, "launch", lambda program, base=0: launch(changed(program, lost), base)
        )
        report = selftest(device)
        assert queue in {o.name for o in report.failures if o.grade == "tokens"}


def test_without_numba_it_runs_and_says_so() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from vdla.config import TINY\n"
        "from vdla.runtime.devices.functional import FunctionalDevice\n"
        "from vdla.runtime.selftest import selftest\n"
        "report = selftest(FunctionalDevice(TINY))\n"
        "print(report.passed, *report.notes)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found.startswith("True the cycle model needs numba, which is not installed")
