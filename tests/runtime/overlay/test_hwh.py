"""The hand-off file: its addresses, clocks and wires, read without pynq.

``tests/pynq`` reads it with pynq's own parsers.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from vdla.boards import BOARDS, VLNV, ZYNQ_7000
from vdla.config import PYNQ_Z1
from vdla.errors import ConfigError
from vdla.registers import Register
from vdla.runtime.overlay import hardware_handoff


def read(name: str, **options: object) -> ElementTree.Element:
    board = BOARDS[name]
    text = hardware_handoff(board, board.configuration, **options)  # type: ignore[arg-type]
    return ElementTree.fromstring(text.encode())


def module(root: ElementTree.Element, instance: str) -> ElementTree.Element:
    found = root.find(f".//MODULE[@INSTANCE='{instance}']")
    assert found is not None
    return found


def parameters(root: ElementTree.Element, instance: str) -> dict[str, str]:
    return {
        entry.attrib["NAME"]: entry.attrib["VALUE"]
        for entry in module(root, instance).findall("PARAMETERS/PARAMETER")
    }


@pytest.mark.parametrize("name", BOARDS)
def test_the_processor_reaches_the_accelerator_and_its_interrupts(name: str) -> None:
    board, root = BOARDS[name], read(name)
    assert module(root, "vdla_0").attrib["VLNV"] == VLNV
    ranges = {
        entry.attrib["INSTANCE"]: entry.attrib
        for entry in module(root, "ps").findall("MEMORYMAP/MEMRANGE")
    }
    assert {instance: int(at["BASEVALUE"], 16) for instance, at in ranges.items()} == {
        "vdla_0": board.address,
        "interrupts": board.controller_address,
    }
    for at in ranges.values():
        assert int(at["HIGHVALUE"], 16) - int(at["BASEVALUE"], 16) == 0xFFFF
        assert at["MASTERBUSINTERFACE"] == board.control_port


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("controller", [True, False])
def test_every_wire_has_both_its_ends(name: str, controller: bool) -> None:
    root = read(name, controller=controller)
    ends = {}
    for part in root.iter("MODULE"):
        for port in part.findall("PORTS/PORT"):
            here = part.attrib["INSTANCE"], port.attrib["NAME"]
            there = {
                (end.attrib["INSTANCE"], end.attrib["PORT"]) for end in port.iter("CONNECTION")
            }
            ends[here] = there, port.attrib["SIGNAME"]
    for here, (others, signal) in ends.items():
        assert others
        for other in others:
            assert here in ends[other][0]
            assert ends[other][1] == signal


def test_the_clock_is_that_asked_for() -> None:
    found = parameters(read("pynq-z1", clock_mhz=142.86), "ps")
    assert found["PCW_FCLK0_PERIPHERAL_DIVISOR0"] == "7"
    assert found["PCW_FCLK0_PERIPHERAL_DIVISOR1"] == "1"
    assert [found[f"PCW_FPGA_FCLK{clock}_ENABLE"] for clock in range(4)] == ["1", "0", "0", "0"]
    found = parameters(read("kv260"), "ps")
    assert found["PSU__CRL_APB__PL0_REF_CTRL__DIVISOR0"] == "4"  # 1000 / 250
    assert found["PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ"] == "250.000000"
    assert found["C_SAXIGP2_DATA_WIDTH"] == "128"
    with pytest.raises(ConfigError, match="A PL clock of pynq-z1 must be 1000 MHz"):
        read("pynq-z1", clock_mhz=150.0)


def test_the_configuration_is_named() -> None:
    found = parameters(read("pynq-z1"), "vdla_0")
    assert found["CONFIG_HASH"] == f"{PYNQ_Z1.hash:016x}"
    assert found["CONFIG_NAME"] == "pynq-z1"


def test_registers_are_those_of_the_table() -> None:
    entries = module(read("pynq-z1"), "vdla_0").findall(".//REGISTERS/REGISTER")
    assert [entry.attrib["NAME"] for entry in entries] == [register.name for register in Register]
    (start,) = (e for e in entries if e.attrib["NAME"] == "INSTRUCTION_BASE")
    values = {p.attrib["NAME"]: p.attrib["VALUE"] for p in start.findall("PROPERTY")}
    assert int(values["ADDRESS_OFFSET"], 16) == Register.INSTRUCTION_BASE
    assert values["SIZE"] == "64"
    assert values["ACCESS"] == "read-write"


@pytest.mark.parametrize(
    ("name", "device", "package", "grade"),
    [
        ("pynq-z1", "7z020", "clg400", "-1"),  # as in pynq 3.1.2's own base.hwh
        ("zcu104", "xczu7ev", "ffvc1156", "-2"),
        ("kv260", "xck26", "sfvc784", "-2LV"),
    ],
)
def test_the_device_is_named_as_vivado_names_it(
    name: str, device: str, package: str, grade: str
) -> None:
    info = read(name).find("SYSTEMINFO")
    assert info is not None
    assert info.attrib["DEVICE"] == device
    assert info.attrib["PACKAGE"] == package
    assert info.attrib["SPEEDGRADE"] == grade
    assert (info.attrib["ARCH"] == "zynq") == (BOARDS[name].family == ZYNQ_7000)
