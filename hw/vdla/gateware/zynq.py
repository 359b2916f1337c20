"""A Zynq-7000's whole fabric: the accelerator wired to the processing system by hand.

This is what a vendor's block design amounts to, for tools that have none. The processor's own
pins, memory and peripherals, are no pins of the fabric.
"""

from __future__ import annotations

from amaranth.hdl import Cat, ClockDomain, Const, Elaboratable, Instance, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import connect

from vdla.config import Config

from .axi3_control import Axi3Bridge, Axi3Control
from .top import Top, top_signature

__all__ = ["Zynq"]

_CONTROL, _MEMORY = "MAXIGP0", "SAXIHP0"
"""Prefixes of the ports in the names of the primitive's pins."""

_HELD = {
    **{f"{port}ACLK": 1 for port in ("MAXIGP1", "SAXIACP", "SAXIGP0", "SAXIGP1")},
    **{f"{port}ACLK": 1 for port in ("SAXIHP1", "SAXIHP2", "SAXIHP3")},
    **{f"DMA{channel}ACLK": 1 for channel in range(4)},
    **{
        f"EMIO{peripheral}{number}{name}": width
        for peripheral, names, width in (
            ("CAN", "PHYRX", 1),
            ("ENET", "EXTINTIN GMIICOL GMIICRS GMIIRXCLK GMIIRXDV GMIIRXER GMIITXCLK MDIOI", 1),
            ("ENET", "GMIIRXD", 8),
            ("I2C", "SCLI SDAI", 1),
            ("SDIO", "CDN CLKFB CMDI WP", 1),
            ("SDIO", "DATAI", 4),
            ("SPI", "MI SCLKI SI SSIN", 1),
            ("TTC", "CLKI", 3),
            ("UART", "CTSN DCDN DSRN RIN RX", 1),
            ("USB", "VBUSPWRFAULT", 1),
        )
        for number in range(2)
        for name in names.split()
    },
    **{f"EMIO{name}": 1 for name in ("PJTAGTCK", "PJTAGTDI", "PJTAGTMS")},
    **{f"EMIO{name}": 1 for name in ("SRAMINTIN", "TRACECLK", "WDTCLKI")},
    "EMIOGPIOI": 64,
    "DDRARB": 4,
    "EVENTEVENTI": 1,
    "FCLKCLKTRIGN": 4,
    "FPGAIDLEN": 1,
    "FTMDTRACEINATID": 4,
    "FTMDTRACEINCLOCK": 1,
    "FTMDTRACEINDATA": 32,
    "FTMDTRACEINVALID": 1,
    "FTMTF2PDEBUG": 32,
    "FTMTF2PTRIG": 4,
    "FTMTP2FTRIGACK": 4,
}
"""Inputs by width that are held low, as the vendor's wrapper holds them: left alone, one may read
high, and an SD card would be gone or a USB port at fault. A port without a clock needs no more."""

_RESET_STAGES = 4
_INTERRUPTS = 20  # sixteen shared lines, then two of each core
_SIZE_BITS = 2  # these ports know beats of up to 8 bytes


class Zynq(Elaboratable):
    """Processing system, bridge and accelerator, on FCLK0 and its reset; interrupt line 0.

    Parameters
    ----------
    config : Config
        With a bus of AXI3 and 64 bits.
    address, address_bytes : int
        Window of the accelerator's registers.
    """

    def __init__(self, config: Config, address: int, address_bytes: int) -> None:
        self._config = config
        self._top = Top(config)
        self._bridge = Axi3Bridge(address, address_bytes)

    def elaborate(self, platform: object) -> Module:
        """Connect the ports that are used, and hold inputs that must not float."""
        m = Module()
        clocks, resets, clock = Signal(4), Signal(4), Signal(name="clk")
        stages = Signal(_RESET_STAGES, init=-1)
        m.domains.sync = sync = ClockDomain("sync")
        m.domains.boot = boot = ClockDomain("boot", reset_less=True)
        sync.clk = boot.clk = clock
        sync.rst = Signal(name="rst")
        m.d.comb += sync.rst.eq(stages[-1])
        m.d.boot += stages.eq(Cat(~resets[0], stages[:-1]))
        m.submodules.clock_buffer = Instance("BUFG", i_I=clocks[0], o_O=clock)
        m.submodules.vdla = top = self._top
        m.submodules.bridge = bridge = self._bridge
        connect(m, bridge.control, top.s_axi)
        m.submodules.processor = Instance(
            "PS7",
            a_keep=1,
            o_FCLKCLK=clocks,
            o_FCLKRESETN=resets,
            i_IRQF2P=Cat(top.interrupt, Const(0, _INTERRUPTS - 1)),
            **{f"i_{name}": Const(0, width) for name, width in _HELD.items()},
            **{f"i_{port}ACLK": clock for port in (_CONTROL, _MEMORY)},
            **self._control_port(),
            **self._memory_port(),
        )
        return m

    def _control_port(self) -> dict[str, Value]:
        """Return the pins of the port to the registers, for the instance."""
        pins = {}
        for name, member in Axi3Control().members.items():
            direction = "o" if member.flow is wiring.Out else "i"
            pins[f"{direction}_{_CONTROL}{name.upper()}"] = getattr(self._bridge.gp, name)
        return pins

    def _memory_port(self) -> dict[str, Value]:
        """Return the pins of the port to memory, for the instance."""
        pins: dict[str, Value] = {
            **{f"i_{_MEMORY}{name}ID": Const(0, 6) for name in ("AR", "AW", "W")},
            **{f"i_{_MEMORY}{name}LOCK": Const(0, 2) for name in ("AR", "AW")},
            **{f"i_{_MEMORY}{name}QOS": Const(0, 4) for name in ("AR", "AW")},
            **{f"i_{_MEMORY}{name}ISSUECAP1EN": Const(0, 1) for name in ("RD", "WR")},
        }
        for name, member in top_signature(self._config).members.items():
            if name.startswith("m_axi_"):
                pin = name.removeprefix("m_axi_").upper()
                value = Value.cast(getattr(self._top, name))
                if pin.endswith("SIZE"):
                    value = value[:_SIZE_BITS]
                direction = "i" if member.flow is wiring.Out else "o"
                pins[f"{direction}_{_MEMORY}{pin}"] = value
        return pins
