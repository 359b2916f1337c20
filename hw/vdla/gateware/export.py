"""Gateware as text: Verilog for simulators and vendors' tools, RTLIL for yosys."""

from __future__ import annotations

from amaranth.back import rtlil, verilog
from amaranth.hdl import ClockDomain, Fragment, Signal, Value
from amaranth.lib import wiring

__all__ = ["to_rtlil", "to_verilog"]

_NAME = "top"


def to_verilog(component: wiring.Component, name: str = _NAME) -> str:
    """Return a component as Verilog; port ``m_axi.araddr`` is called ``m_axi_araddr``.

    Clock and reset are ``clk`` and ``rst``, which is synchronous and active high.

    Parameters
    ----------
    component : wiring.Component
    name : str
        Of the module.
    """
    fragment, ports = _prepare(component)
    return str(verilog.convert(fragment, name=name, ports=ports, emit_src=False))


def to_rtlil(component: wiring.Component, name: str = _NAME) -> str:
    """Return a component as RTLIL, with the ports of `to_verilog`."""
    fragment, ports = _prepare(component)
    return str(rtlil.convert(fragment, name=name, ports=ports, emit_src=False))


def _prepare(component: wiring.Component) -> tuple[Fragment, dict[str, tuple[Value, None]]]:
    """Register the reset, and name each member by its path, which Vivado's packager reads.

    The register takes the reset's fan-out off the port. In Verilator it halves the time of a
    cycle: logic that depends on an input is evaluated twice more, and a reset reaches all of it.
    """
    fragment = Fragment.get(component, None)
    clocked, unreset = ClockDomain("sync"), ClockDomain("port", reset_less=True)
    unreset.clk, clocked.rst = clocked.clk, Signal(name="reset")
    reset = Signal(name="rst")
    fragment.add_domains(clocked, unreset)
    fragment.add_statements("port", clocked.rst.eq(reset))
    ports: dict[str, tuple[Value, None]] = {"clk": (clocked.clk, None), "rst": (reset, None)}
    for path, _member, value in component.signature.flatten(component):
        ports["_".join(str(part) for part in path)] = (Value.cast(value), None)
    return fragment, ports
