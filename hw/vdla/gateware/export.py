"""Gateware as text: Verilog for simulators and vendors' tools, RTLIL for yosys."""

from __future__ import annotations

import re

from amaranth.back import rtlil, verilog
from amaranth.hdl import ClockDomain, Fragment, Signal, Value
from amaranth.lib import wiring

__all__ = ["to_rtlil", "to_verilog"]

_NAME = "top"

_REGISTER = re.compile(
    r"^  always @\((?P<edge>posedge \S+)\)\n    (?P<name>\S.*?) <= (?P<next>\\\$\d+) ;\n",
    re.MULTILINE,
)
_CHOICE = re.compile(
    r"^  always @\* begin\n    if \(\\\$auto\S+ \) begin end\n"
    r"(?P<body>    (?P<next>\\\$\d+)  ?=.*?)^  end\n",
    re.MULTILINE | re.DOTALL,
)


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
    text = str(verilog.convert(fragment, name=name, ports=ports, emit_src=False))
    return _fold_registers(text)


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


def _fold_registers(text: str) -> str:
    """Let a register's process choose its next value, where Amaranth has a process for each.

    ``always @* begin n = r; if (e) n = x; end always @(posedge clk) r <= n;`` becomes
    ``always @(posedge clk) begin if (e) r <= x; end``, which reads better and which simulators
    need not evaluate before the edge nor where nothing is written.
    """
    return "endmodule\n".join(_fold_module(module) for module in text.split("endmodule\n"))


def _fold_module(text: str) -> str:
    registers = {match["next"]: match for match in _REGISTER.finditer(text)}
    uses: dict[str, int] = {}
    for name in re.findall(r"\\\$\d+(?= )", text):
        uses[name] = uses.get(name, 0) + 1
    folded: set[str] = set()

    def choose(choice: re.Match[str]) -> str:
        name, body = choice["next"], choice["body"]
        register = registers.get(name)
        written = re.compile(rf"^( +){re.escape(name)} (\[[\d:]+\])? ?= ", re.MULTILINE)
        assignments = len(written.findall(body))
        # Besides these it is declared and read by the register: nothing else may see it.
        if register is None or assignments != uses[name] - 2:
            return choice[0]
        folded.add(name)
        target = register["name"].rstrip()
        body = written.sub(
            lambda match: f"{match[1]}{target} {match[2] or ''}{' ' if match[2] else ''}<= ", body
        )
        body = body.removeprefix(f"    {target} <= {target};\n")
        body = body.removeprefix(f"    {target} <= {target} ;\n")
        return f"  always @({register['edge']}) begin\n{body}  end\n"

    text = _CHOICE.sub(choose, text)
    text = _REGISTER.sub(lambda match: "" if match["next"] in folded else match[0], text)
    for name in folded:
        text = re.sub(rf"^  reg (\[\d+:\d+\] )?{re.escape(name)} ;\n", "", text, flags=re.MULTILINE)
    return text
