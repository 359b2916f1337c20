"""The IP core: the gateware under a module whose attributes tell Vivado its interfaces."""

from __future__ import annotations

from amaranth.hdl import Shape
from amaranth.lib import wiring

from vdla.config import Config
from vdla.gateware.export import to_verilog
from vdla.gateware.top import Top, top_signature

__all__ = ["CORE", "IP", "core_ports", "ip_sources", "ip_wrapper"]

CORE, IP = "vdla", "vdla_ip"
"""The modules: the gateware, and the core around it."""

_WINDOW_BITS = 16
"""Of an address on the control port. The registers take the low 12; they repeat in the window."""

_SIGNALS = {
    "clk": (
        "signal:clock:1.0 clk CLK",
        "XIL_INTERFACENAME clk, ASSOCIATED_BUSIF s_axi:m_axi, ASSOCIATED_RESET rst",
    ),
    "rst": ("signal:reset:1.0 rst RST", "XIL_INTERFACENAME rst, POLARITY ACTIVE_HIGH"),
    "interrupt": (
        "signal:interrupt:1.0 interrupt INTERRUPT",
        "XIL_INTERFACENAME interrupt, SENSITIVITY LEVEL_HIGH",
    ),
}
_BUSES = ("s_axi", "m_axi")
_ADDRESSES = ("s_axi_awaddr", "s_axi_araddr")


def ip_sources(config: Config) -> dict[str, str]:
    """Return the core's Verilog by file name: module `CORE`, and `IP`, which instantiates it."""
    return {f"{CORE}.v": to_verilog(Top(config), CORE), f"{IP}.v": ip_wrapper(config)}


def ip_wrapper(config: Config) -> str:
    """Return module `IP`."""
    ports = [("clk", "input", 1), ("rst", "input", 1), *core_ports(config)]
    declared, described = [], set()
    for name, direction, width in ports:
        bus = name[:5] if name[:5] in _BUSES else ""
        info, parameters = _SIGNALS.get(name, ("", ""))
        if bus:
            info = f"interface:aximm:1.0 {bus} {name[6:].upper()}"
            parameters = "" if bus in described else _bus_parameters(bus, config)
            described.add(bus)
        lines = [f'    (* X_INTERFACE_INFO = "xilinx.com:{info}" *)']
        if parameters:
            lines.append(f'    (* X_INTERFACE_PARAMETER = "{parameters}" *)')
        wide = _WINDOW_BITS if name in _ADDRESSES else width
        lines.append(f"    {direction} wire {f'[{wide - 1}:0] ' if wide > 1 else ''}{name}")
        declared.append("\n".join(lines))
    connected = [
        f"        .{name}({name}{f'[{width - 1}:0]' if name in _ADDRESSES else ''})"
        for name, _, width in ports
    ]
    return (
        f"// VDLA, configuration {config.name} (hash {config.hash:016x}), as an IP core.\n\n"
        f"module {IP} (\n"
        + ",\n".join(declared)
        + f"\n);\n    {CORE} core (\n"
        + ",\n".join(connected)
        + "\n    );\nendmodule\n"
    )


def core_ports(config: Config) -> list[tuple[str, str, int]]:
    """Return name, direction and width of the gateware's ports, without those for simulation."""
    found = []
    for path, member in top_signature(config).members.flatten():
        name = "_".join(str(part) for part in path)
        if member.is_port and not name.startswith("trace_"):
            direction = "output" if member.flow is wiring.Out else "input"
            found.append((name, direction, Shape.cast(member.shape).width))
    return found


def _bus_parameters(bus: str, config: Config) -> str:
    if bus == "s_axi":
        values: dict[str, object] = {
            "PROTOCOL": "AXI4LITE",
            "DATA_WIDTH": 32,
            "ADDR_WIDTH": _WINDOW_BITS,
        }
    else:
        values = {
            "PROTOCOL": f"AXI{config.axi_version}",
            "DATA_WIDTH": config.axi_data_bits,
            "ADDR_WIDTH": config.address_bits,
            "ID_WIDTH": 0,
            "MAX_BURST_LENGTH": config.axi_burst_beats,
            "NUM_READ_OUTSTANDING": config.axi_outstanding,
            "NUM_WRITE_OUTSTANDING": config.axi_outstanding,
            "SUPPORTS_NARROW_BURST": 0,
            "HAS_LOCK": 0,
            "HAS_QOS": 0,
            "HAS_REGION": 0,
        }
    return ", ".join([f"XIL_INTERFACENAME {bus}", *(f"{k} {v}" for k, v in values.items())])
