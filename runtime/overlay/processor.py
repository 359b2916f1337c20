"""Processing systems, by the names that Vivado gives their parameters and ports."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.boards import ZYNQ_7000, Board
from vdla.config import Config

__all__ = [
    "CONTROLLER",
    "PROCESSOR",
    "Processor",
    "processor",
]

PROCESSOR = "ps"
CONTROLLER = "interrupts"
"""Cells of the design, beside the accelerator."""

_CLOCKS = range(4)


@dataclass(frozen=True)
class Processor:
    """A board's processing system as a design has it.

    Parameters
    ----------
    module : str
        Name of the IP.
    version : str
        Its version in the Vivado that is expected.
    clock, reset, interrupt : str
        Pins: PL clock 0, its reset (low), and the interrupts from the fabric.
    control_clock, memory_clock : str
        Pins: the clocks of the two ports.
    memory_segment : str
        Address segment of memory behind the memory port.
    memory_interface : str
        Interface of that segment; an MPSoC numbers its ports.
    memory_reach : int
        Bytes of that segment.
    settings : dict of str to str
        Parameters that are set: what the fabric sees. The rest is set up by the image that boots.
    derived : dict of str to str
        Parameters that Vivado derives and pynq reads.
    """

    module: str
    version: str
    clock: str
    reset: str
    interrupt: str
    control_clock: str
    memory_clock: str
    memory_segment: str
    memory_interface: str
    memory_reach: int
    settings: dict[str, str]
    derived: dict[str, str]

    @property
    def vlnv(self) -> str:
        """Vendor, library, name and version of the IP."""
        return f"xilinx.com:ip:{self.module}:{self.version}"


def processor(board: Board, config: Config, clock_mhz: float) -> Processor:
    """Return a board's processing system at a PL clock.

    Raises
    ------
    ConfigError
        No divisors make that clock.
    """
    make = _zynq_7000 if board.family == ZYNQ_7000 else _zynq_ultrascale
    return make(board, config, clock_mhz)


def _zynq_7000(board: Board, config: Config, clock_mhz: float) -> Processor:
    derived: dict[str, str] = {}
    for clock, mhz, (first, second) in _divided(board, clock_mhz):
        derived |= {
            f"PCW_FPGA_FCLK{clock}_ENABLE": "0" if clock else "1",
            f"PCW_FPGA{clock}_PERIPHERAL_FREQMHZ": f"{mhz:.6f}",
            f"PCW_FCLK{clock}_PERIPHERAL_CLKSRC": board.pll,
            f"PCW_FCLK{clock}_PERIPHERAL_DIVISOR0": str(first),
            f"PCW_FCLK{clock}_PERIPHERAL_DIVISOR1": str(second),
        }
    clock_settings = (
        "PCW_FPGA_FCLK0_ENABLE",
        "PCW_FPGA0_PERIPHERAL_FREQMHZ",
        "PCW_FCLK0_PERIPHERAL_CLKSRC",
    )
    return Processor(
        module="processing_system7",
        version="5.5",
        clock="FCLK_CLK0",
        reset="FCLK_RESET0_N",
        interrupt="IRQ_F2P",
        control_clock="M_AXI_GP0_ACLK",
        memory_clock="S_AXI_HP0_ACLK",
        memory_segment="HP0_DDR_LOWOCM",
        memory_interface="S_AXI_HP0",
        memory_reach=512 << 20,
        settings={
            "PCW_CRYSTAL_PERIPHERAL_FREQMHZ": "50",
            "PCW_EN_CLK0_PORT": "1",
            "PCW_EN_RST0_PORT": "1",
            **{name: derived.pop(name) for name in clock_settings},
            "PCW_USE_FABRIC_INTERRUPT": "1",
            "PCW_IRQ_F2P_INTR": "1",
            "PCW_USE_M_AXI_GP0": "1",
            "PCW_USE_S_AXI_HP0": "1",
            "PCW_S_AXI_HP0_DATA_WIDTH": str(config.axi_data_bits),
        },
        derived=derived,
    )


def _zynq_ultrascale(board: Board, config: Config, clock_mhz: float) -> Processor:
    bits = str(config.axi_data_bits)
    # pynq writes these two into the width registers of the ports.
    derived = {"C_MAXIGP0_DATA_WIDTH": "128", "C_SAXIGP2_DATA_WIDTH": bits}
    for clock, mhz, (first, second) in _divided(board, clock_mhz):
        name = f"PSU__CRL_APB__PL{clock}_REF_CTRL"
        derived |= {
            f"PSU__FPGA_PL{clock}_ENABLE": "0" if clock else "1",
            f"{name}__SRCSEL": board.pll,
            f"{name}__FREQMHZ": f"{mhz:.6f}",
            f"{name}__ACT_FREQMHZ": f"{mhz:.6f}",
            f"{name}__DIVISOR0": str(first),
            f"{name}__DIVISOR1": str(second),
        }
    clock_settings = (
        "PSU__FPGA_PL0_ENABLE",
        "PSU__CRL_APB__PL0_REF_CTRL__SRCSEL",
        "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ",
    )
    return Processor(
        module="zynq_ultra_ps_e",
        version="3.5",
        clock="pl_clk0",
        reset="pl_resetn0",
        interrupt="pl_ps_irq0",
        control_clock="maxihpm0_fpd_aclk",
        memory_clock="saxihp0_fpd_aclk",
        memory_segment="HP0_DDR_LOW",
        memory_interface="SAXIGP2",
        memory_reach=2 << 30,
        settings={
            **{name: derived.pop(name) for name in clock_settings},
            "PSU__USE__FABRIC__RST": "1",
            "PSU__USE__IRQ0": "1",
            "PSU__USE__M_AXI_GP0": "1",  # M_AXI_HPM0_FPD
            "PSU__USE__M_AXI_GP1": "0",
            "PSU__USE__M_AXI_GP2": "0",
            "PSU__USE__S_AXI_GP2": "1",  # S_AXI_HP0_FPD
            "PSU__MAXIGP0__DATA_WIDTH": "128",
            "PSU__SAXIGP2__DATA_WIDTH": bits,
        },
        derived=derived,
    )


def _divided(board: Board, clock_mhz: float) -> list[tuple[int, float, tuple[int, int]]]:
    """Return each PL clock with its frequency and divisors; those unused run at 100 MHz."""
    clocks = [(clock, clock_mhz if clock == 0 else 100.0) for clock in _CLOCKS]
    return [(clock, board.clock_mhz(mhz), board.divisors(mhz)) for clock, mhz in clocks]
