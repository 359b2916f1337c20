"""Vivado's script for an overlay: what differs from board to board, before what does not."""

from __future__ import annotations

from importlib.resources import files

from vdla.boards import CONTROLLER_BYTES, VLNV, ZYNQ_7000, Board
from vdla.config import Config

from .job import design_of
from .processor import processor

__all__ = ["EXPECTED", "SCRIPT", "vivado_script"]

EXPECTED = "2024.1"
"""The Vivado that the script is written for; the base overlays of PYNQ 3.1 are built with it."""

SCRIPT = "build.tcl"
"""Its name."""

_BODY = "vivado.tcl"


def vivado_script(board: Board, config: Config, clock_mhz: float, jobs: int = 2) -> str:
    """Return the Tcl script that builds an overlay, to be run in the folder of its Verilog.

    Parameters
    ----------
    board : Board
    config : Config
    clock_mhz : float
        PL clock.
    jobs : int
        Processes that Vivado may start.

    Raises
    ------
    ConfigError
        No divisors make that clock.
    """
    system = processor(board, config, clock_mhz)
    zynq_7000 = board.family == ZYNQ_7000
    # On a Zynq-7000 the pins of memory and peripherals are ports of the design.
    automation = {"make_external": "FIXED_IO, DDR", "Master": "Disable", "Slave": "Disable"}
    settings = {f"CONFIG.{name}": value for name, value in system.settings.items()}
    values = {
        "expected": EXPECTED,
        "part": board.part,
        "device_family": "zynq" if zynq_7000 else "zynquplus",
        "board_part": board.board_part or "",
        "config": config.name,
        "built": design_of(board, config, clock_mhz),
        "vlnv": VLNV,
        "jobs": str(jobs),
        "processor": system.module,
        "processor_automation": _dict(automation if zynq_7000 else {}),
        "processor_settings": _dict(settings),
        "control_port": board.control_port,
        "memory_port": board.memory_port,
        "clock_pin": system.clock,
        "reset_pin": system.reset,
        "interrupt_pin": system.interrupt,
        "control_clock": system.control_clock,
        "memory_clock": system.memory_clock,
        "address": f"0x{board.address:08X}",
        "address_bytes": f"0x{board.address_bytes:X}",
        "controller_address": f"0x{board.controller_address:08X}",
        "controller_bytes": f"0x{CONTROLLER_BYTES:X}",
        "memory_interface": system.memory_interface,
        "memory_segment": system.memory_segment,
        "memory_reach": f"0x{system.memory_reach:X}",
    }
    head = [
        f"# An overlay for the {board.title}: configuration {config.name}, "
        f"{board.clock_mhz(clock_mhz):g} MHz.",
        f"# For Vivado {EXPECTED}: vivado -mode batch -source {SCRIPT}",
        "",
        *(f"set {name} {{{value}}}" for name, value in values.items()),
        "",
    ]
    body = (files(__package__ or "") / _BODY).read_text(encoding="utf-8")
    return "\n".join(head) + "\n" + body


def _dict(values: dict[str, str]) -> str:
    """Return a Tcl dictionary; no name or value holds a brace."""
    return " ".join(f"{name} {{{value}}}" for name, value in values.items())
