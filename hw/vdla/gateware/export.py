"""Gateware as text: Verilog for simulators and vendors' tools, RTLIL for yosys."""

from __future__ import annotations

from amaranth.back import rtlil, verilog
from amaranth.hdl import Value
from amaranth.lib import wiring

__all__ = ["to_rtlil", "to_verilog"]

_NAME = "top"


def to_verilog(component: wiring.Component, name: str = _NAME) -> str:
    """Return a component as Verilog; port ``m_axi.araddr`` is called ``m_axi_araddr``.

    Parameters
    ----------
    component : wiring.Component
    name : str
        Of the module.
    """
    return str(verilog.convert(component, name=name, ports=_ports(component), emit_src=False))


def to_rtlil(component: wiring.Component, name: str = _NAME) -> str:
    """Return a component as RTLIL, with the ports of `to_verilog`."""
    return str(rtlil.convert(component, name=name, ports=_ports(component), emit_src=False))


def _ports(component: wiring.Component) -> dict[str, tuple[Value, object]]:
    """Name each member by its path, which Vivado's packager reads: ``s_axi_`` and so on."""
    return {
        "_".join(str(part) for part in path): (Value.cast(value), None)
        for path, member, value in component.signature.flatten(component)
    }
