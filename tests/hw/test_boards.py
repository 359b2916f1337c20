"""The table of boards: against the processing systems' address maps and the configurations."""

from __future__ import annotations

import pytest

from vdla.boards import BOARDS, CONTROLLER_BYTES, ZYNQ_7000, ZYNQ_ULTRASCALE, Board, board
from vdla.config import PRESETS
from vdla.errors import ConfigError

# First and last byte of what the control port reaches (UG585, table 4-1; UG1085, chapter 10).
REACH = {
    "M_AXI_GP0": (0x4000_0000, 0x7FFF_FFFF),
    "M_AXI_HPM0_FPD": (0xA000_0000, 0xAFFF_FFFF),
}


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_fits_its_configuration(name: str) -> None:
    it = BOARDS[name]
    assert it.name == name
    assert it.configuration == PRESETS[it.config]
    assert it.configuration.axi_version == {ZYNQ_7000: 3, ZYNQ_ULTRASCALE: 4}[it.family]
    assert it.configuration.axi_data_bits == {ZYNQ_7000: 64, ZYNQ_ULTRASCALE: 128}[it.family]
    assert it.configuration.memory_bytes <= it.memory_bytes


@pytest.mark.parametrize("name", BOARDS)
def test_windows_are_aligned_apart_and_within_reach(name: str) -> None:
    it = BOARDS[name]
    first, last = REACH[it.control_port]
    windows = [(it.address, it.address_bytes), (it.controller_address, CONTROLLER_BYTES)]
    for start, size in windows:
        assert start % size == 0
        assert first <= start
        assert start + size - 1 <= last
    (low, size), (high, _) = sorted(windows)
    assert low + size <= high


@pytest.mark.parametrize("name", BOARDS)
def test_the_clocks_can_be_made(name: str) -> None:
    it = BOARDS[name]
    assert it.clocks_mhz == tuple(sorted(it.clocks_mhz))
    assert it.clock_mhz(it.configuration.clock_mhz) == it.configuration.clock_mhz
    for mhz in it.clocks_mhz:
        assert it.clock_mhz(mhz) == pytest.approx(mhz, abs=0.01)


@pytest.mark.parametrize(
    ("name", "mhz", "divisors"),
    [
        ("pynq-z1", 100.0, (10, 1)),
        ("pynq-z1", 142.86, (7, 1)),
        ("pynq-z1", 10.0, (50, 2)),  # 100 takes more than six bits
        ("kv260", 250.0, (4, 1)),
        ("zcu104", 300.0, (5, 1)),
    ],
)
def test_divisors(name: str, mhz: float, divisors: tuple[int, int]) -> None:
    assert BOARDS[name].divisors(mhz) == divisors


@pytest.mark.parametrize("mhz", [150.0, 0.0, -5.0, 2000.0])
def test_a_clock_that_no_divisor_makes_is_refused(mhz: float) -> None:
    with pytest.raises(ConfigError) as error:
        BOARDS["pynq-z1"].divisors(mhz)
    assert str(error.value) == (
        "A PL clock of pynq-z1 must be 1000 MHz, the IO PLL, divided by a whole number, not "
        f"{mhz:g} MHz: choose one of 50, 100, 111.11, 125, 142.86, 166.67, 200."
    )


def test_boards_are_found_by_name() -> None:
    assert board("PYNQ_Z1") is BOARDS["pynq-z1"]
    with pytest.raises(ConfigError) as error:
        board("zedboard")
    assert str(error.value) == (
        "A board's name must be one of pynq-z1, pynq-z2, ultra96v2, zcu104, kv260, aup-zu3, not "
        "'zedboard'."
    )


def test_boards_without_zynq_7000_support_do_not_get_pynq_4() -> None:
    for it in BOARDS.values():
        assert ("pynq==3.1.2" in it.pynq) == (it.family == ZYNQ_7000)
        assert "pycparser<3" in it.pynq


def test_a_board_is_a_value() -> None:
    assert isinstance(BOARDS["pynq-z1"], Board)
    assert len({it.part for it in BOARDS.values()}) == 5
