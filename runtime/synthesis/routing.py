"""A relative timing check: a reduced array placed and routed on an ECP5.

Place and route for the Zynq needs a device database that no package carries. An ECP5's carries
over only in kind: which path is longest, and whether a change made it longer.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from vdla.config import Config

from .cells import TOP, unit_of
from .yosys import Progress, mark, run_nextpnr, run_yosys

__all__ = ["NOTE", "Crossing", "Timing", "place", "reduced"]

NOTE = (
    "This is no prediction for the xc7z020 or any other part of a board: it is another fabric, "
    "placed by other tools, and a smaller array. Compare it with figures of this command alone."
)
_DEVICE = "LFE5U-85F-6"
_NEXTPNR = (
    "--85k",
    "--speed",
    "6",
    "--package",
    "CABGA381",
    "--seed",
    "1",
    "--lpf-allow-unconstrained",  # which pin is which is of no account
    "--timing-allow-fail",  # the aim is to learn the clock, not to meet one
    "--json",
    "netlist.json",
    "--report",
    "report.json",
)
_GLOBAL, _PAD = "$glbnet$", "$TRELLIS_IO_IN"
"""What nextpnr puts around the name of a clock that comes from a pin."""
_SCANNED = "scanned"
"""The submodule of the design that is placed in which the accelerator is."""


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """One end of the longest path: a unit, and the cell in it."""

    unit: str
    cell: str


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The clock that a reduced array reaches on an ECP5, and what holds it back.

    Attributes
    ----------
    config : Config
        The reduced one.
    fmax_mhz : dict of str to float
        By clock.
    start, end : Crossing
        Of the longest path.
    units : tuple of str
        Whose nets the path follows, in order; a name for a flattened cell may be its neighbour's.
    logic_ns, routing_ns : float
        Its time, set-up time and clock-to-output in the first.
    levels : int
        Cells it passes through between its ends, each of a carry chain among them.
    """

    config: Config
    fmax_mhz: dict[str, float]
    start: Crossing
    end: Crossing
    units: tuple[str, ...]
    logic_ns: float
    routing_ns: float
    levels: int

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON holds it."""
        return {
            "config": {
                name: value for name, value in self.config.to_dict().items() if name != "name"
            },
            "device": _DEVICE,
            "note": NOTE,
            "fmax_mhz": self.fmax_mhz,
            "critical_path": {
                "start": asdict(self.start),
                "end": asdict(self.end),
                "units": list(self.units),
                "logic_ns": self.logic_ns,
                "routing_ns": self.routing_ns,
                "levels": self.levels,
            },
        }


def reduced(config: Config) -> Config:
    """Return a 1x4x4 array with buffers of a few KiB, alike in all else; it fits an ECP5."""
    return config.replace(
        name=f"{config.name}, reduced",
        batch=1,
        block_in=4,
        block_out=4,
        uop_bytes=min(config.uop_bytes, 2 << 10),
        inp_bytes=min(config.inp_bytes, 2 << 10),
        wgt_bytes=min(config.wgt_bytes, 4 << 10),
        acc_bytes=min(config.acc_bytes, 8 << 10),
    )


def place(config: Config, progress: Progress | None = None) -> Timing:
    """Place and route a configuration, `reduced`, on an ECP5; this takes minutes.

    Ports are registers (`vdla.gateware.scan`), so every path counted starts and ends at a clock.

    Raises
    ------
    ModuleNotFoundError
        Amaranth, yosys or nextpnr is not installed.
    DeviceError
        A tool fails; the message holds its last lines.
    """
    from vdla.gateware.export import to_rtlil
    from vdla.gateware.scan import Scanned
    from vdla.gateware.top import Top

    small = reduced(config)
    rtlil = to_rtlil(Scanned(Top(small), _SCANNED), TOP)
    return timing_of(small, route(rtlil, config.clock_mhz, progress))


def route(rtlil: str, clock_mhz: float, progress: Progress | None = None) -> dict[str, Any]:
    """Return nextpnr's report of a design."""
    script = (
        "read_rtlil top.il",
        mark("synthesize"),
        f"synth_ecp5 -top {TOP} -json netlist.json",
        mark("place and route"),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "top.il").write_text(rtlil, encoding="utf-8")
        run_yosys(script, folder, progress)
        run_nextpnr([*_NEXTPNR, "--freq", f"{clock_mhz:g}"], folder)
        report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def timing_of(config: Config, report: Mapping[str, Any]) -> Timing:
    paths: Sequence[Mapping[str, Any]] = report["critical_paths"]
    slowest = max(
        (path for path in paths if "async" not in path["from"] + path["to"]),
        key=lambda path: sum(step["delay"] for step in path["path"]),
    )
    steps = slowest["path"]
    routes = [step for step in steps if step["type"] == "routing"]
    routing = sum(step["delay"] for step in routes)
    units = (unit_of(_path(step["net"])) for step in routes)
    return Timing(
        config=config,
        fmax_mhz={
            clock.removeprefix(_GLOBAL).removesuffix(_PAD): round(found["achieved"], 2)
            for clock, found in report["fmax"].items()
        },
        start=_crossing(steps[0]["from"]["cell"]),
        end=_crossing(steps[-1]["to"]["cell"]),
        units=tuple(unit for unit, _ in groupby(units)),
        logic_ns=round(sum(step["delay"] for step in steps) - routing, 2),
        routing_ns=round(routing, 2),
        levels=sum(step["type"] == "logic" for step in steps),
    )


def _crossing(cell: str) -> Crossing:
    path = _path(cell)
    return Crossing(unit=unit_of(path), cell=path)


def _path(name: str) -> str:
    return name.removeprefix(f"{_SCANNED}.")
