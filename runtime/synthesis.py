"""What an accelerator takes of an FPGA, by yosys."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.config import Config
from vdla.errors import DeviceError

__all__ = ["PARTS", "Part", "Report", "Resources", "part_of", "synthesize", "tally"]

_TOP = "vdla"
_CHILD = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for line in open(sys.argv[1]):
    libyosys.run_pass(line.strip(), design)
"""
_LUT_CELLS = {f"LUT{inputs}": 1 for inputs in range(1, 7)} | {
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
    "SRL16E": 1,
    "SRLC32E": 1,
}
"""LUTs that a cell takes; distributed memory is made of them."""


@dataclass(frozen=True)
class Resources:
    """Counts of one design or a part of it; `bram36` counts a RAMB18 as half."""

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
        return {"lut": self.lut, "ff": self.ff, "dsp": self.dsp, "bram36": self.bram36}


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
}
"""The parts of the named configurations that target a board."""


@dataclass(frozen=True)
class Report:
    """Resources of a configuration.

    Attributes
    ----------
    total : Resources
    modules : dict of str to Resources
        The total, divided by unit.
    part : Part
    """

    config: Config
    part: Part
    total: Resources
    modules: dict[str, Resources]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON holds it."""
        return {
            "config": self.config.name,
            "config_hash": f"{self.config.hash:016x}",
            "part": self.part.name,
            "total": self.total.to_dict(),
            "available": self.part.has.to_dict(),
            "modules": {name: used.to_dict() for name, used in self.modules.items()},
        }


def part_of(config: Config) -> Part:
    """Return the part of a configuration's board; the PYNQ-Z1's for one that has none."""
    return PARTS.get(config.name, PARTS["pynq-z1"])


def synthesize(config: Config) -> Report:
    """Synthesize a configuration with yosys's ``synth_xilinx``; this takes minutes.

    The hierarchy is kept, so that resources can be told apart by unit.

    Raises
    ------
    DeviceError
        yosys is not installed, or fails; the message holds its last lines.
    """
    from vdla.gateware.export import to_rtlil
    from vdla.gateware.top import Top

    part = part_of(config)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "top.il").write_text(to_rtlil(Top(config), _TOP), encoding="utf-8")
        script = (
            f"read_rtlil {folder / 'top.il'}",
            f"synth_xilinx -family {part.family} -top {_TOP} -noiopad",
            f"tee -o {folder / 'stat.json'} stat -json",
        )
        (folder / "script").write_text("\n".join(script), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(folder / "script")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            last = "\n".join(done.stdout.splitlines()[-5:])
            raise DeviceError(
                "Synthesis needs a working pyosys (pip install 'vdla[hw]'); it ended with status "
                f"{done.returncode}:\n{last}"
            )
        stat = json.loads((folder / "stat.json").read_text(encoding="utf-8"))
    modules = tally(stat)
    return Report(config, part, sum(modules.values(), Resources()), modules)


def tally(stat: Mapping[str, Any]) -> dict[str, Resources]:
    """Return resources by unit from what yosys's ``stat -json`` prints.

    Each module counts once for every instance; instances are found from the top down.
    """
    cells = {
        name.lstrip("\\"): module["num_cells_by_type"] for name, module in stat["modules"].items()
    }
    units: dict[str, Resources] = {}

    def visit(module: str) -> None:
        own = Resources()
        for kind, count in cells[module].items():
            inner = kind.lstrip("\\")
            if inner in cells:
                for _ in range(count):
                    visit(inner)
            else:
                own += _cell(inner, count)
        unit = _unit(module)
        units[unit] = units.get(unit, Resources()) + own

    visit(_TOP)
    return dict(sorted(units.items()))


def _unit(module: str) -> str:
    """Return the unit that a module of the hierarchy belongs to."""
    path = module.split(".")[1:]
    path = path[path.index("machine") + 1 :] if "machine" in path else path
    if not path:
        return "scratchpads and wiring" if "machine" in module else "top"
    depth = 2 if path[0] == "compute" else 1
    return ".".join(path[:depth])


def _cell(kind: str, count: int) -> Resources:
    if kind in _LUT_CELLS:
        return Resources(lut=_LUT_CELLS[kind] * count)
    if kind.startswith("FD"):
        return Resources(ff=count)
    if kind.startswith("DSP48"):
        return Resources(dsp=count)
    if kind.startswith("RAMB36"):
        return Resources(bram36=count)
    if kind.startswith("RAMB18"):
        return Resources(bram36=count / 2)
    return Resources()
