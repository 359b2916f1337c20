"""The boards that an overlay can be built for: part, ports, address map, clocks, memory.

An accelerator stands between one memory port and one control port of a board's processing
system; its interrupt goes through an AXI interrupt controller, because pynq shows a driver no
other (``pynqmetadata``, ``interrupt_controllers_view``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.config import PRESETS, Config
from vdla.errors import ConfigError

__all__ = [
    "BOARDS",
    "CONTROLLER_BYTES",
    "IP_NAME",
    "VLNV",
    "ZYNQ_7000",
    "ZYNQ_ULTRASCALE",
    "Board",
    "board",
    "board_of_image",
]

VLNV = "vdla:user:vdla:1.0"
"""Vendor, library, name and version of the IP core; a driver is found by it."""

IP_NAME = "vdla_0"
"""The core's name in a block design, and so in ``Overlay.ip_dict``."""

ZYNQ_7000 = "zynq-7000"
ZYNQ_ULTRASCALE = "zynq-ultrascale+"

CONTROLLER_BYTES = 0x10000
"""Window of the interrupt controller."""

_IMAGES_NAMES = {"ultra96": "ultra96v2"}  # what PYNQ's image calls either version

_DIVISORS = range(1, 64)  # each of the two divisors of a PL clock has six bits
_TOLERANCE = 0.002  # of a clock: 166.67 names 1000/6 MHz, and crystals are 33.333 MHz
_CLOCKS_MHZ = {
    1000.0: (50.0, 100.0, 111.11, 125.0, 142.86, 166.67, 200.0, 250.0, 333.33),
    1500.0: (50.0, 100.0, 125.0, 150.0, 187.5, 214.29, 250.0, 300.0, 375.0),
}


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board, by what an overlay and a driver need to know of it.

    Parameters
    ----------
    name, title : str
        As the command and as its maker calls it.
    part : str
        FPGA with package and speed grade, as Vivado names it.
    family : str
        `ZYNQ_7000` or `ZYNQ_ULTRASCALE`.
    config : str
        The named configuration that fits it.
    memory_port, control_port : str
        Ports of the processing system: to memory, and for the registers.
    address, address_bytes : int
        Window of the accelerator's registers.
    controller_address : int
        Of the interrupt controller, in a window of `CONTROLLER_BYTES`.
    interrupt : int
        Line from the fabric to the processor that the controller drives.
    raw_interrupt : int
        The same line, numbered by the processor's interrupt controller.
    pll : str
        What the PL clock is divided from, as the boot loader left it; pynq sets divisors only.
    pll_mhz : float
        Its frequency.
    clocks_mhz : tuple of float
        PL clocks worth building for.
    memory_bytes : int
        Contiguous memory that the board's image reserves.
    address_bits : int
        Of an address in memory.
    pynq : tuple of str
        What to install of pynq, as pip reads it.
    board_part : str or None
        Vivado's board files, without their version; used where they are installed.
    """

    name: str
    title: str
    part: str
    family: str
    config: str
    memory_port: str
    control_port: str
    address: int
    address_bytes: int = 0x10000
    controller_address: int
    interrupt: int = 0
    raw_interrupt: int
    pll: str
    pll_mhz: float
    clocks_mhz: tuple[float, ...]
    memory_bytes: int
    address_bits: int
    pynq: tuple[str, ...]
    board_part: str | None

    @property
    def configuration(self) -> Config:
        """The named configuration that fits the board."""
        return PRESETS[self.config]

    def divisors(self, clock_mhz: float) -> tuple[int, int]:
        """Return both divisors that make a PL clock.

        Raises
        ------
        ConfigError
            No divisors do.
        """
        for second in _DIVISORS:
            first = round(self.pll_mhz / (clock_mhz * second)) if clock_mhz > 0 else 0
            if first in _DIVISORS:
                made = self.pll_mhz / (first * second)
                if abs(made - clock_mhz) <= _TOLERANCE * clock_mhz:
                    return first, second
        choices = ", ".join(f"{mhz:g}" for mhz in self.clocks_mhz)
        raise ConfigError(
            f"A PL clock of {self.name} must be {self.pll_mhz:g} MHz, the {self.pll}, divided by "
            f"a whole number, not {clock_mhz:g} MHz: choose one of {choices}."
        )

    def clock_mhz(self, asked_mhz: float) -> float:
        """Return the PL clock that is made when one is asked for.

        Raises
        ------
        ConfigError
            None is near enough.
        """
        first, second = self.divisors(asked_mhz)
        return self.pll_mhz / (first * second)


def _zynq_7000(name: str, title: str, board_part: str) -> Board:
    return Board(
        name=name,
        title=title,
        part="xc7z020clg400-1",
        family=ZYNQ_7000,
        config=name,
        memory_port="S_AXI_HP0",
        control_port="M_AXI_GP0",
        # M_AXI_GP0 reaches 0x4000_0000 to 0x7fff_ffff (UG585, table 4-1). The image's device
        # tree keeps the first 64 KiB for its interrupt node (PYNQ sdbuild, pynq_uio_zynq.dtsi);
        # these two windows are the ones of the base overlays (pynq 3.1.2, base.tcl).
        address=0x43C00000,
        controller_address=0x41800000,
        raw_interrupt=61,  # IRQ_F2P[0] (UG585, table 7-4); the fabric node of pynq_uio_zynq.dtsi
        # FBDIV 20 of a 50 MHz crystal, FCLK0 from the IO PLL (pynq 3.1.2, base.hwh).
        pll="IO PLL",
        pll_mhz=1000.0,
        clocks_mhz=_CLOCKS_MHZ[1000.0][:7],  # of speed grade -1 little goes beyond 200 MHz
        memory_bytes=128 << 20,  # CONFIG_CMA_SIZE_MBYTES (PYNQ sdbuild, pynq.cfg)
        address_bits=32,
        pynq=("pynq==3.1.2", "pycparser<3"),  # 4.0 has no Zynq-7000; its rpc.py needs pycparser 2
        board_part=board_part,
    )


def _zynq_ultrascale(
    name: str,
    title: str,
    part: str,
    board_part: str,
    *,
    config: str = "",
    pll: str = "IOPLL",
    pll_mhz: float = 1500.0,
    memory_bytes: int = 128 << 20,  # CONFIG_CMA_SIZE_MBYTES (PYNQ sdbuild, pynq.cfg)
) -> Board:
    return Board(
        name=name,
        title=title,
        part=part,
        family=ZYNQ_ULTRASCALE,
        config=config or name,
        memory_port="S_AXI_HP0_FPD",
        control_port="M_AXI_HPM0_FPD",
        address=0xA0000000,  # M_AXI_HPM0_FPD reaches 0xa000_0000 to 0xafff_ffff (UG1085, ch. 10)
        controller_address=0xA0010000,
        raw_interrupt=121,  # pl_ps_irq0[0] (UG1085, ch. 13); fabric node of pynq_uio_zynqmp.dtsi
        pll=pll,
        pll_mhz=pll_mhz,
        clocks_mhz=_CLOCKS_MHZ[pll_mhz],
        memory_bytes=memory_bytes,
        address_bits=40,
        # Images of PYNQ 3.1 have the first, of 4 the second; setup.py of 4.0 asks for pycparser 2.
        pynq=("pynq>=3.1.2,<5", "pycparser<3"),
        board_part=board_part,
    )


BOARDS: Mapping[str, Board] = {
    made.name: made
    for made in (
        # Part: pynq 3.1.2, boards/*/base/base.tcl. Board files: Digilent's and TUL's.
        _zynq_7000("pynq-z1", "Digilent PYNQ-Z1", "www.digilentinc.com:pynq-z1:part0"),
        _zynq_7000("pynq-z2", "TUL PYNQ-Z2", "tul.com.tw:pynq-z2:part0"),
        # Avnet/Ultra96-PYNQ, sensors96b.tcl.v2: part, PL0 from the IOPLL, FBDIV 45 of 33.333 MHz.
        _zynq_ultrascale(
            "ultra96v2",
            "Avnet Ultra96-V2",
            "xczu3eg-sbva484-1-i",
            "avnet.com:ultra96v2:part0",
            config="ultra96",
        ),
        # pynq 3.1.2, ZCU104/base/base.hwh: part, PL0 from the RPLL, FBDIV 90 of 33.333 MHz, halved.
        _zynq_ultrascale(
            "zcu104",
            "AMD ZCU104",
            "xczu7ev-ffvc1156-2-e",
            "xilinx.com:zcu104:part0",
            pll="RPLL",
        ),
        # Xilinx/Kria-PYNQ, kv260/base/base.tcl: part, PL0 from the IOPLL, FBDIV 60 of 33.333 MHz,
        # halved. Ubuntu's boot script for the Kria starter kits passes cma=1000M.
        _zynq_ultrascale(
            "kv260",
            "AMD Kria KV260",
            "xck26-sfvc784-2LV-c",
            "xilinx.com:kv260_som:part0",
            pll_mhz=1000.0,
            memory_bytes=1000 << 20,
        ),
        # Xilinx/AUP-ZU3: part (base/base.tcl), PL0 from the IOPLL at 15 times 100 MHz
        # (run_create_zynq_ultra_ps.tcl), cma: Reserved 128 MiB (docs/appendix_example_boot_log.md).
        # Board files: Real Digital's; those of the board with 4 GB end in -4gb.
        _zynq_ultrascale(
            "aup-zu3",
            "Real Digital AUP-ZU3",
            "xczu3eg-sfvc784-2-e",
            "realdigital.org:aup-zu3-8gb:part0",
        ),
    )
}
"""The boards, by name."""


def board(name: str) -> Board:
    """Return a board by name; case, ``_`` and ``-`` make no difference.

    Raises
    ------
    ConfigError
        No board has that name.
    """
    try:
        return BOARDS[name.lower().replace("_", "-")]
    except KeyError:
        known = ", ".join(BOARDS)
        raise ConfigError(f"A board's name must be one of {known}, not {name!r}.") from None


def board_of_image(name: str) -> Board | None:
    """Return the board that a PYNQ image says it is for; None where it is none of ours."""
    try:
        return board(_IMAGES_NAMES.get(name.lower(), name))
    except ConfigError:
        return None
