"""FPGAs, by what they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from vdla.config import Config

__all__ = ["PARTS", "Part", "Resources", "part_of"]


@dataclass(frozen=True)
class Resources:
    """Counts of a design, a part of one, or a device.

    Parameters
    ----------
    lut : int
        Lookup tables of any number of inputs, those of distributed memory among them.
    ff : int
        Flip-flops and latches.
    dsp : int
        DSP48E1 or DSP48E2.
    bram36 : float
        RAMB36; a RAMB18 is half of one.
    """

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram36: float = 0.0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.lut + other.lut,
            self.ff + other.ff,
            self.dsp + other.dsp,
            self.bram36 + other.bram36,
        )

    def to_dict(self) -> dict[str, float]:
        """Return the counts by name."""
        return asdict(self)


@dataclass(frozen=True)
class Part:
    """A device: yosys's family for it, and what it has.

    The figures are those of the vendor's product tables (Zynq-7000 SoC and Zynq UltraScale+ MPSoC
    product selection guides).
    """

    name: str
    family: str
    has: Resources


PARTS: Mapping[str, Part] = {
    "pynq-z1": Part("xc7z020", "xc7", Resources(53_200, 106_400, 220, 140)),
    "pynq-z2": Part("xc7z020", "xc7", Resources(53_200, 106_400, 220, 140)),
    "ultra96": Part("xczu3eg", "xcup", Resources(70_560, 141_120, 360, 216)),
    "zcu104": Part("xczu7ev", "xcup", Resources(230_400, 460_800, 1_728, 312)),
    "kv260": Part("xck26", "xcup", Resources(117_120, 234_240, 1_248, 144)),
    "aup-zu3": Part("xczu3eg", "xcup", Resources(70_560, 141_120, 360, 216)),
}
"""The parts of the named configurations that target a board."""


def part_of(config: Config) -> Part:
    """Return the part of a configuration's board; the PYNQ-Z1's for one that has none."""
    return PARTS.get(config.name, PARTS["pynq-z1"])
