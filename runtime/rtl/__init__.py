"""The gateware in process: Verilog through Verilator, its memory and its clock in C++."""

from .build import build, build_top
from .simulation import MemorySettings, Simulation

__all__ = ["MemorySettings", "Simulation", "build", "build_top"]
