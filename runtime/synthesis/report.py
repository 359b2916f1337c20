"""Resources of a configuration on its board's part, by yosys."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.config import Config
from vdla.runtime.cache import cache_folder

from .cells import TOP, UNITS, tally
from .contents import Contents
from .parts import Part, Resources, part_of
from .yosys import Progress, mark, run_yosys, yosys_version

__all__ = ["Report", "synthesize"]

_STAGES = (
    "begin",
    "prepare",
    "map_dsp",
    "coarse",
    "map_memory",
    "map_ffram",
    "fine",
    "map_cells",
    "map_ffs",
    "map_luts",
    "finalize",
    "check",
)
"""Labels of ``synth_xilinx``; the last, which only prints, is left out."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Resources of a configuration.

    Attributes
    ----------
    config : Config
    part : Part
    tool : str
        yosys's name and version.
    contents : Contents
        What was synthesized, in figures that tell whether the report is out of date.
    total : Resources
    modules : dict of str to Resources
        The total, divided by unit.
    """

    config: Config
    part: Part
    tool: str
    contents: Contents
    total: Resources
    modules: dict[str, Resources]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON holds it."""
        return {
            "config": self.config.name,
            "config_hash": f"{self.config.hash:016x}",
            "part": self.part.name,
            "tool": self.tool,
            "gateware": self.contents.to_dict(),
            "total": self.total.to_dict(),
            "available": self.part.has.to_dict(),
            "modules": {name: used.to_dict() for name, used in self.modules.items()},
        }


def synthesize(config: Config, progress: Progress | None = None) -> Report:
    """Synthesize a configuration with yosys's ``synth_xilinx``; this takes minutes.

    What was synthesized before, by the same yosys, is read from the cache.

    The modules of `UNITS` are kept apart and all below them is flattened, so that resources can
    be told apart by unit; total and units come from the same netlist. Keeping all of some sixty
    modules takes more than twice as long, and flattening all leaves nothing to tell units by.

    Raises
    ------
    ModuleNotFoundError
        Amaranth or yosys is not installed.
    DeviceError
        yosys fails; the message holds its last lines.
    """
    from vdla.gateware.export import to_rtlil
    from vdla.gateware.top import Top

    part = part_of(config)
    rtlil = to_rtlil(Top(config), TOP)
    stat = _stat(rtlil, script_of(part.family), progress)
    modules = tally(stat)
    return Report(
        config=config,
        part=part,
        tool=" ".join(stat["creator"].split()[:2]),  # the compiler that built it follows
        contents=Contents.of(rtlil),
        total=sum(modules.values(), Resources()),
        modules=modules,
    )


def _stat(rtlil: str, script: Sequence[str], progress: Progress | None) -> dict[str, Any]:
    """Return yosys's statistics, from the cache where the same was synthesized before."""
    key = hashlib.sha256("\n".join([yosys_version(), *script, rtlil]).encode()).hexdigest()
    kept = cache_folder("synthesis") / f"{key}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "top.il").write_text(rtlil, encoding="utf-8")
            run_yosys(script, folder, progress)
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(folder / "stat.json", part)
            part.replace(kept)  # whole or not at all
    stat: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return stat


def script_of(family: str) -> list[str]:
    """Return the commands of one synthesis, told apart by stage so that progress can be shown."""
    synth = f"synth_xilinx -family {family} -top {TOP} -flatten -noiopad"
    lines = ["read_rtlil top.il"]
    lines += [f"setattr -mod -set keep_hierarchy 1 {TOP}.{unit}" for unit in UNITS]
    for stage, following in zip(_STAGES, _STAGES[1:], strict=False):
        lines += [mark(stage), f"{synth} -run {stage}:{following}"]
    return [*lines, "tee -o stat.json stat -json"]
