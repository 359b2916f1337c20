"""Our hand-off file through pynq's own parsers: what an `Overlay` would learn from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vdla.boards import BOARDS, VLNV, ZYNQ_7000
from vdla.registers import Register
from vdla.runtime.overlay import hardware_handoff


def parse(path: Path, name: str, *, legacy: bool) -> Any:
    """Read a file as `Overlay` does, or as a partial bitstream's is read."""
    from pynq.pl_server import hwh_parser

    if legacy:
        zynq = BOARDS[name].family == ZYNQ_7000
        return (hwh_parser._HWHZynq if zynq else hwh_parser._HWHUltrascale)(str(path))
    from pynq.metadata.runtime_metadata_parser import RuntimeMetadataParser
    from pynqmetadata.frontends import Metadata

    return RuntimeMetadataParser(Metadata(input=path))


@pytest.fixture(params=BOARDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["runtime", "legacy"])
def legacy(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def written(folder: Path, name: str, **options: Any) -> Path:
    path = folder / "vdla.hwh"
    board = BOARDS[name]
    path.write_text(hardware_handoff(board, board.configuration, **options), encoding="utf-8")
    return path


def test_the_accelerator_is_found(tmp_path: Path, name: str, legacy: bool) -> None:
    board = BOARDS[name]
    parser = parse(written(tmp_path, name), name, legacy=legacy)
    core = parser.ip_dict["vdla_0"]
    assert core["type"] == VLNV
    assert core["phys_addr"] == board.address
    assert core["addr_range"] == board.address_bytes
    assert core["fullpath"] == "vdla_0"
    assert core["parameters"]["CONFIG_HASH"] == f"{board.configuration.hash:016x}"
    assert set(core["registers"]) == {register.name for register in Register}
    assert core["registers"]["CYCLES"]["address_offset"] == Register.CYCLES
    assert core["registers"]["CYCLES"]["size"] == 64
    status = core["registers"]["STATUS"]["fields"]["done"]
    assert (status["bit_offset"], status["bit_width"]) == (1, 1)


def test_its_interrupt_is_found(tmp_path: Path, name: str, legacy: bool) -> None:
    parser = parse(written(tmp_path, name), name, legacy=legacy)
    assert parser.ip_dict["vdla_0"]["interrupts"]["interrupt"]["controller"] == "interrupts"
    assert parser.interrupt_pins["vdla_0/interrupt"]["index"] == 0
    controller = parser.interrupt_controllers["interrupts"]
    assert controller["parent"] == ""
    assert controller["raw_irq"] == BOARDS[name].raw_interrupt
    assert parser.ip_dict["interrupts"]["phys_addr"] == BOARDS[name].controller_address


def test_without_a_controller_pynq_polls(tmp_path: Path, name: str) -> None:
    parser = parse(written(tmp_path, name, controller=False), name, legacy=False)
    assert parser.ip_dict["vdla_0"]["interrupts"] == {}
    assert parser.interrupt_controllers == {}


def test_clocks(tmp_path: Path, name: str, legacy: bool) -> None:
    board = BOARDS[name]
    parser = parse(written(tmp_path, name), name, legacy=legacy)
    clock = parser.clock_dict[0]
    assert clock["enable"] == 1
    made = board.pll_mhz / (clock["divisor0"] * clock["divisor1"])
    assert made == pytest.approx(board.configuration.clock_mhz)
    assert [parser.clock_dict[other]["enable"] for other in (1, 2, 3)] == [0, 0, 0]


def test_the_processor_is_found(tmp_path: Path, name: str, legacy: bool) -> None:
    parser = parse(written(tmp_path, name), name, legacy=legacy)
    assert parser.ps_name == "ps"
    zynq = BOARDS[name].family == ZYNQ_7000
    assert parser.family_ps == ("processing_system7" if zynq else "zynq_ultra_ps_e")
    # pynq reads the widths of the ports of an MPSoC from here and sets them.
    assert ("C_SAXIGP2_DATA_WIDTH" in parser.ip_dict["ps"]["parameters"]) != zynq


def test_the_register_map_reads_our_registers(tmp_path: Path) -> None:
    """pynq's own `register_map`, over memory in place of the device."""
    import numpy as np
    from pynq.registers import RegisterMap

    parser = parse(written(tmp_path, "pynq-z1"), "pynq-z1", legacy=False)
    registers = RegisterMap.create_subclass("Vdla", parser.ip_dict["vdla_0"]["registers"])
    words = np.zeros(0x1000 // 4, np.uint32)
    words[Register.STATUS // 4] = 0b10
    words[Register.CYCLES // 4] = 12345
    found = registers(words)
    assert found.STATUS.done == 1
    assert int(found.CYCLES) == 12345
