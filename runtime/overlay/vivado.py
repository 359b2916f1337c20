"""Building an overlay with Vivado."""

from __future__ import annotations

import os
import shlex
from math import isfinite, nan
from pathlib import Path

from vdla.bitstreams import BIT, HWH, Manifest
from vdla.errors import OverlayError

from .core import CORE, ip_sources
from .job import (
    Job,
    Progress,
    check_design,
    check_handoff,
    check_timing,
    finish,
    present,
    write_texts,
)
from .tools import Follow, require, run
from .vivado_script import EXPECTED, SCRIPT, vivado_script

__all__ = ["Vivado"]

_TIMING, _RESULT = "timing.rpt", "result.txt"
_MADE = {
    BIT: "overlay.bit",
    HWH: "overlay.hwh",
    _TIMING: _TIMING,
    "utilization.rpt": "utilization.rpt",
}
"""What the script leaves, by the name that it gets in the overlay."""

_MET = "All user specified timing constraints are met."
_STAGES = ("synth_1", "impl_1")
_COMMAND = f"vivado -mode batch -source {SCRIPT}"


class Vivado:
    """The vendor's tool."""

    def write(self, job: Job) -> list[Path]:
        """Write the script and the Verilog."""
        texts = {
            SCRIPT: vivado_script(job.board, job.config, job.clock_mhz, os.cpu_count() or 1),
            **ip_sources(job.config),
            f"{CORE}.toml": job.config.to_toml(),
        }
        return write_texts(job.build, texts)

    def command(self, job: Job) -> str:
        """Return the command, for Vivado as it is expected."""
        return f"cd {shlex.quote(str(job.build))} && {_COMMAND}  # Vivado {EXPECTED}"

    def build(self, job: Job, progress: Progress | None = None) -> Manifest:
        """Build the overlay, which takes tens of minutes.

        Raises
        ------
        DeviceError
            Vivado is not on PATH, or fails.
        OverlayError
            Timing is not met, or the design is not the one asked for.
        """
        vivado = require(["vivado"], f"Vivado {EXPECTED}")["vivado"]
        self.write(job)
        (job.build / _RESULT).unlink(missing_ok=True)
        options = ["-mode", "batch", "-nojournal", "-notrace", "-log", "vivado.log"]
        log = job.build / "console.log"
        command = [vivado, *options, "-source", SCRIPT]
        run(command, job.build, log, _follow(progress), what="Vivado")
        return self.collect(job)

    def collect(self, job: Job) -> Manifest:
        """Make an overlay of what the script left.

        Raises
        ------
        OverlayError
            Something is missing, timing is not met, or the design is not the one asked for.
        """
        present(job.build, [*_MADE.values(), _RESULT], _COMMAND)
        result = _read_result(job.build / _RESULT)
        slack_ns = min(_number(result, name) for name in ("setup_ns", "hold_ns"))
        check_design(job, result.get("built", ""), _COMMAND)
        report = job.build / _TIMING
        check_timing(job, slack_ns, report)
        if _MET not in report.read_text(encoding="utf-8", errors="replace"):
            raise OverlayError(
                f"An overlay's timing must be met, and Vivado says that it is not, though the "
                f"worst slack of its clock is {slack_ns:.3f} ns: see {report}"
            )
        check_handoff(job.board, job.build / _MADE[HWH])
        return finish(
            job,
            {name: job.build / made for name, made in _MADE.items()},
            slack_ns=slack_ns,
            tool="Vivado",
            tool_version=result["version"],
        )


def _follow(progress: Progress | None) -> Follow:
    """Return what turns Vivado's lines into progress."""

    def follow(line: str) -> None:
        for index, stage in enumerate(_STAGES, 1):
            if progress is not None and "Launched" in line and stage in line:
                progress(index, len(_STAGES) + 1, stage)

    if progress is not None:
        progress(0, len(_STAGES) + 1, "block design")
    return follow


def _read_result(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    found = dict(line.strip().split(maxsplit=1) for line in lines if len(line.split()) >= 2)
    for name in ("version", "setup_ns", "hold_ns"):
        if name not in found:
            raise OverlayError(f"A build's result must say {name}: {path}: build again")
    return found


def _number(result: dict[str, str], name: str) -> float:
    try:
        found = float(result[name])
    except ValueError:
        found = nan
    if not isfinite(found):
        raise OverlayError(
            f"A build's {name} must be a number, not {result[name]!r}: see the timing report"
        )
    return found
