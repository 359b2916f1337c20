"""The half that runs in the simulator: clock, reset and ports of one unit."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

__all__ = ["TB"]


class TB:
    """Owns clock and reset, and names the ports of a unit.

    Inputs are driven while the clock is low, where outputs that depend on registers alone have
    settled; everything is sampled at the rising edge.
    """

    def __init__(self, dut: Any, unit: str) -> None:
        self.dut, self.unit = dut, unit

    def port(self, name: str) -> Any:
        return getattr(self.dut, f"{self.unit}_{name}")

    def get(self, name: str) -> int:
        return int(self.port(name).value)

    def set(self, **values: int) -> None:
        for name, value in values.items():
            port = self.port(name)
            port.value = value & ((1 << len(port)) - 1)

    async def start(self, **inputs: int) -> None:
        """Start the clock, drive inputs and reset."""
        self.set(**inputs)
        self.dut.rst.value = 1
        cocotb.start_soon(Clock(self.dut.clk, 10, unit="ns").start())
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        await self.low()
        self.dut.rst.value = 0
        await self.low()  # the write takes hold within this cycle

    async def low(self) -> None:
        await FallingEdge(self.dut.clk)

    async def high(self) -> None:
        await RisingEdge(self.dut.clk)
