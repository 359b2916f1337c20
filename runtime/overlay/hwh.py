"""The hardware hand-off file: what pynq reads a design's cores, addresses and clocks from.

Vivado writes one of its own beside a bitstream. This one describes the same design for tools that
write none, and for tests without a bitstream.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from vdla.boards import CONTROLLER_BYTES, IP_NAME, VLNV, ZYNQ_7000, Board
from vdla.config import Config
from vdla.registers import Access, Register

from .processor import CONTROLLER, PROCESSOR, Processor, processor

__all__ = ["hardware_handoff"]

_INTERRUPT = "interrupt"
_ACCESS = {Access.READ: "read-only"}
_AXI = "xilinx.com:interface:aximm:1.0"
_CONTROLLER_VLNV = "xilinx.com:ip:axi_intc:4.1"


def hardware_handoff(
    board: Board, config: Config, clock_mhz: float | None = None, *, controller: bool = True
) -> str:
    """Return the hand-off file of an accelerator on a board.

    Parameters
    ----------
    board : Board
    config : Config
    clock_mhz : float, optional
        PL clock; the configuration's without it.
    controller : bool
        Whether the interrupt goes through an AXI interrupt controller, without which pynq shows
        a driver no interrupt.

    Raises
    ------
    ConfigError
        No divisors make that clock.
    """
    system = processor(board, config, config.clock_mhz if clock_mhz is None else clock_mhz)
    root = Element("EDKSYSTEM", EDWVERSION="1.2")
    root.append(_system_info(board))
    SubElement(root, "EXTERNALPORTS")
    SubElement(root, "EXTERNALINTERFACES")
    modules = SubElement(root, "MODULES")
    modules.append(_processor(board, config, system, controller))
    modules.append(_accelerator(board, config, system, controller))
    if controller:
        modules.append(_controller(board, system))
    indent(root, "  ")
    text = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8" standalone="no" ?>\n{text}\n'


def _system_info(board: Board) -> Element:
    device, package, grade = _split(board.part)
    return Element(
        "SYSTEMINFO",
        ARCH="zynq" if board.family == ZYNQ_7000 else "zynquplus",
        DEVICE=device,
        NAME="overlay",
        PACKAGE=package,
        SPEEDGRADE=grade,
    )


def _split(part: str) -> tuple[str, str, str]:
    """Take ``xc7z020clg400-1`` apart, or ``xczu3eg-sbva484-1-i``, which has a dash more."""
    if part.startswith("xc7z"):
        name, grade = part.split("-")
        return name[2:7], name[7:], f"-{grade}"
    device, package, grade = part.split("-")[:3]
    return device, package, f"-{grade}"


def _module(instance: str, vlnv: str) -> Element:
    _, _, name, version = vlnv.split(":")
    return Element(
        "MODULE",
        FULLNAME=f"/{instance}",
        HWVERSION=version,
        INSTANCE=instance,
        IPTYPE="PERIPHERAL",
        IS_ENABLE="1",
        MODCLASS="PERIPHERAL",
        MODTYPE=name,
        VLNV=vlnv,
    )


def _parameters(module: Element, values: dict[str, str]) -> None:
    parent = SubElement(module, "PARAMETERS")
    for name, value in values.items():
        SubElement(parent, "PARAMETER", NAME=name, VALUE=value)


def _port(
    ports: Element, name: str, direction: str, signal: str, kind: str, *ends: tuple[str, str]
) -> None:
    port = SubElement(ports, "PORT", DIR=direction, NAME=name, SIGIS=kind, SIGNAME=signal)
    connections = SubElement(port, "CONNECTIONS")
    for instance, pin in ends:
        SubElement(connections, "CONNECTION", INSTANCE=instance, PORT=pin)


def _bus(module: Element, **attributes: str) -> None:
    found = module.find("BUSINTERFACES")
    parent = SubElement(module, "BUSINTERFACES") if found is None else found
    interface = SubElement(parent, "BUSINTERFACE", {"VLNV": _AXI, **attributes})
    SubElement(interface, "PARAMETERS")


def _range(
    parent: Element, block: str, base: int, size: int, instance: str, kind: str, *buses: str
) -> None:
    master, slave = buses
    SubElement(
        parent,
        "MEMRANGE",
        ADDRESSBLOCK=block,
        BASENAME="C_BASEADDR",
        BASEVALUE=f"0x{base:08X}",
        HIGHNAME="C_HIGHADDR",
        HIGHVALUE=f"0x{base + size - 1:08X}",
        INSTANCE=instance,
        IS_DATA="TRUE",
        IS_INSTRUCTION="TRUE",
        MASTERBUSINTERFACE=master,
        MEMTYPE=kind,
        SLAVEBUSINTERFACE=slave,
    )


def _processor(board: Board, config: Config, system: Processor, controller: bool) -> Element:
    module = _module(PROCESSOR, system.vlnv)
    module.set("IS_PL", "FALSE")
    _parameters(module, system.settings | system.derived)
    ports = SubElement(module, "PORTS")
    users = [(IP_NAME, "clk")] + [(CONTROLLER, "s_axi_aclk")] * controller
    _port(ports, system.clock, "O", "clock", "clk", *users)
    source = (CONTROLLER, "irq") if controller else (IP_NAME, _INTERRUPT)
    _port(ports, system.interrupt, "I", _line(controller), "undef", source)
    _bus(module, BUSNAME="control", DATAWIDTH="32", NAME=board.control_port, TYPE="MASTER")
    _bus(
        module,
        BUSNAME="memory",
        DATAWIDTH=str(config.axi_data_bits),
        NAME=board.memory_port,
        TYPE="SLAVE",
    )
    ranges = SubElement(module, "MEMORYMAP")
    where = (board.address, board.address_bytes)
    _range(ranges, "reg0", *where, IP_NAME, "REGISTER", board.control_port, "s_axi")
    if controller:
        where = (board.controller_address, CONTROLLER_BYTES)
        _range(ranges, "Reg", *where, CONTROLLER, "REGISTER", board.control_port, "s_axi")
    return module


def _line(controller: bool) -> str:
    """Return the signal at the processor: the controller's output, or the accelerator's."""
    return "processor_interrupt" if controller else _INTERRUPT


def _accelerator(board: Board, config: Config, system: Processor, controller: bool) -> Element:
    module = _module(IP_NAME, VLNV)
    blocks = SubElement(module, "ADDRESSBLOCKS")
    block = SubElement(
        blocks,
        "ADDRESSBLOCK",
        ACCESS="read-write",
        INTERFACE="s_axi",
        NAME="reg0",
        RANGE=str(board.address_bytes),
        USAGE="register",
    )
    _registers(block)
    _parameters(
        module,
        {
            "C_BASEADDR": f"0x{board.address:08X}",
            "C_HIGHADDR": f"0x{board.address + board.address_bytes - 1:08X}",
            "CONFIG_HASH": f"{config.hash:016x}",
            "CONFIG_NAME": config.name,
        },
    )
    ports = SubElement(module, "PORTS")
    _port(ports, "clk", "I", "clock", "clk", (PROCESSOR, system.clock))
    listener = (CONTROLLER, "intr") if controller else (PROCESSOR, system.interrupt)
    _port(ports, _INTERRUPT, "O", _INTERRUPT, "INTERRUPT", listener)
    _bus(module, BUSNAME="control", DATAWIDTH="32", NAME="s_axi", TYPE="SLAVE")
    _bus(
        module,
        BUSNAME="memory",
        DATAWIDTH=str(config.axi_data_bits),
        NAME="m_axi",
        TYPE="MASTER",
    )
    ranges = SubElement(module, "MEMORYMAP")
    where = (system.memory_segment, 0, system.memory_reach)
    _range(ranges, *where, PROCESSOR, "MEMORY", "m_axi", board.memory_port)
    return module


def _controller(board: Board, system: Processor) -> Element:
    module = _module(CONTROLLER, _CONTROLLER_VLNV)
    _parameters(
        module,
        {
            "C_BASEADDR": f"0x{board.controller_address:08X}",
            "C_HIGHADDR": f"0x{board.controller_address + CONTROLLER_BYTES - 1:08X}",
            "C_NUM_INTR_INPUTS": "1",
            "C_IRQ_CONNECTION": "1",
        },
    )
    ports = SubElement(module, "PORTS")
    _port(ports, "s_axi_aclk", "I", "clock", "clk", (PROCESSOR, system.clock))
    _port(ports, "intr", "I", _INTERRUPT, "INTERRUPT", (IP_NAME, _INTERRUPT))
    _port(ports, "irq", "O", _line(True), "INTERRUPT", (PROCESSOR, system.interrupt))
    _bus(module, BUSNAME="control", DATAWIDTH="32", NAME="s_axi", TYPE="SLAVE")
    return module


def _registers(block: Element) -> None:
    """Describe the accelerator's registers, which makes pynq's ``register_map``."""
    parent = SubElement(block, "REGISTERS")
    for register in Register:
        read_only = all(bits.access is Access.READ for bits in register.fields)
        entry = SubElement(parent, "REGISTER", NAME=register.name)
        _properties(
            entry,
            DESCRIPTION=register.name,
            ADDRESS_OFFSET=f"0x{register:03x}",
            SIZE=str(32 * register.words),
            ACCESS="read-only" if read_only else "read-write",
            IS_ENABLED="true",
        )
        fields = SubElement(entry, "FIELDS")
        for bits in register.fields:
            field = SubElement(fields, "FIELD", NAME=bits.name)
            _properties(
                field,
                DESCRIPTION=bits.doc,
                BIT_OFFSET=str(bits.lsb),
                BIT_WIDTH=str(bits.width),
                ACCESS=_ACCESS.get(bits.access, "read-write"),
            )


def _properties(parent: Element, **values: str) -> None:
    for name, value in values.items():
        SubElement(parent, "PROPERTY", NAME=name, VALUE=value)
