"""Building an overlay of a Zynq-7000 with openXC7: yosys, nextpnr-xilinx and Project X-Ray."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from amaranth.back import rtlil

from vdla.bitstreams import BIT, HWH, Manifest
from vdla.boards import ZYNQ_7000, Board
from vdla.config import Config
from vdla.errors import ConfigError, DeviceError, OverlayError
from vdla.gateware.zynq import Zynq

from .core import CORE
from .hwh import hardware_handoff
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

__all__ = ["EXPECTED", "OpenXc7", "design_rtlil"]

EXPECTED = "openXC7 0.8.2 (yosys, nextpnr-xilinx, fasm2frames, xc7frames2bit)"

_TOP = "overlay"
_CHIPS, _DATABASE = "CHIPDB", "PRJXRAY_DB_DIR"
"""Environment variables that openXC7 sets: folders of chip databases, and of X-Ray's."""

_TIMING, _UTILIZATION = "nextpnr.log", "yosys.log"
_MADE = {
    BIT: f"{_TOP}.bit",
    HWH: f"{_TOP}.hwh",
    "timing.rpt": _TIMING,
    "utilization.rpt": _UTILIZATION,
}
"""What the steps leave, by the name that it gets in the overlay."""

_VERSIONS, _DESIGN = "versions.txt", "design.txt"
_SCRIPT = "build.sh"
_TOOLS = ("yosys", "nextpnr-xilinx", "fasm2frames", "xc7frames2bit")
_MARK = "step: "
_SYNTHESIS = f"""\
read_rtlil {_TOP}.il
synth_xilinx -family xc7 -flatten -abc9 -top {_TOP}
check
stat
write_json {_TOP}.json
"""
_FREQUENCY = re.compile(r"Max frequency for clock\s+'([^']+)': ([\d.]+) MHz")


class OpenXc7:
    """Tools whose source is open; no interrupt controller, so that a driver polls."""

    def write(self, job: Job) -> list[Path]:
        """Write the design, its hand-off file and the script of the four steps.

        Raises
        ------
        ConfigError
            The board's family is none that these tools know.
        """
        board = job.board
        _check_family(board)
        texts = {
            _SCRIPT: _shell(job),
            f"{_TOP}.il": design_rtlil(job.config, board),
            f"{_TOP}.ys": _SYNTHESIS,
            f"{_TOP}.xdc": _constraints(job.clock_mhz),
            _MADE[HWH]: hardware_handoff(board, job.config, job.clock_mhz, controller=False),
            f"{CORE}.toml": job.config.to_toml(),
        }
        return write_texts(job.build, texts)

    def command(self, job: Job) -> str:
        """Return the command, for openXC7 as it is expected."""
        return f"cd {shlex.quote(str(job.build))} && sh {_SCRIPT}  # {EXPECTED}"

    def build(self, job: Job, progress: Progress | None = None) -> Manifest:
        """Build the overlay, which takes tens of minutes.

        Raises
        ------
        DeviceError
            A tool is not on PATH or fails, or a database is not found.
        OverlayError
            Timing is not met.
        """
        _check_family(job.board)
        require(_TOOLS, EXPECTED)
        _check_databases(job.board)
        self.write(job)
        for made in (_MADE[BIT], _TIMING, _DESIGN):
            (job.build / made).unlink(missing_ok=True)
        log = job.build / "console.log"
        run(["sh", _SCRIPT], job.build, log, _follow(progress), what="openXC7")
        return self.collect(job)

    def collect(self, job: Job) -> Manifest:
        """Make an overlay of what the steps left.

        Raises
        ------
        OverlayError
            Something is missing, or timing is not met.
        """
        command = f"sh {_SCRIPT}"
        present(job.build, [*_MADE.values(), _VERSIONS, _DESIGN], command)
        check_design(job, _text(job.build / _DESIGN), command)
        report = job.build / _TIMING
        reached = {
            clock: float(mhz)  # the last of each: the one after routing
            for clock, mhz in _FREQUENCY.findall(
                report.read_text(encoding="utf-8", errors="replace")
            )
        }
        if not reached:
            raise OverlayError(
                f"nextpnr must say the frequency that its clock reaches, and does not: {report}"
            )
        slack_ns = 1000 / job.clock_mhz - 1000 / min(reached.values())
        check_timing(job, slack_ns, report)
        check_handoff(job.board, job.build / _MADE[HWH], controller=False)
        return finish(
            job,
            {name: job.build / made for name, made in _MADE.items()},
            slack_ns=slack_ns,
            tool="openXC7",
            tool_version=_text(job.build / _VERSIONS),
        )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()


def design_rtlil(config: Config, board: Board) -> str:
    """Return the whole fabric as RTLIL; it has no ports."""
    design = Zynq(config, board.address, board.address_bytes)
    return str(rtlil.convert(design, name=_TOP, ports=(), emit_src=False))


def _follow(progress: Progress | None) -> Follow:
    """Return what turns the script's lines into progress."""

    def follow(line: str) -> None:
        name = line.removeprefix(_MARK)
        if progress is not None and name in _TOOLS and line != name:
            progress(_TOOLS.index(name), len(_TOOLS), name)

    return follow


def _constraints(clock_mhz: float) -> str:
    return (
        "# FCLK0, behind its buffer. There are no pins: the processor has its own.\n"
        f"create_clock -name fclk0 -period {1000 / clock_mhz:.3f} [get_nets clk]\n"
    )


def _shell(job: Job) -> str:
    """Return the steps; openXC7's environment says where its databases are."""
    part, mhz = job.board.part, f"{job.clock_mhz:.3f}"
    chips = " ".join(f'"${_CHIPS}/{name}"' for name in _chip_names(job.board))
    database = f"${_DATABASE}/zynq7"
    return f"""\
#!/bin/sh
# An overlay for the {job.board.title}: configuration {job.config.name}, {job.clock_mhz:g} MHz.
# For {EXPECTED}.
set -eu
: "${{{_CHIPS}:?}}" "${{{_DATABASE}:?}}"
for chip in {chips}; do
    if [ -f "$chip" ]; then break; fi
done
{{ yosys -V; nextpnr-xilinx --version 2>&1; }} | head -n 2 | tr '\\n' ' ' > {_VERSIONS}

echo "{_MARK}yosys"
yosys -q -l {_UTILIZATION} {_TOP}.ys
echo "{_MARK}nextpnr-xilinx"
# Whether timing is met is judged by vdla, which knows the clocks that the board can make.
nextpnr-xilinx --chipdb "$chip" --xdc {_TOP}.xdc --json {_TOP}.json --fasm {_TOP}.fasm \\
    --freq {mhz} --timing-allow-fail --log {_TIMING}
echo "{_MARK}fasm2frames"
fasm2frames --part {part} --db-root "{database}" {_TOP}.fasm > {_TOP}.frames
echo "{_MARK}xc7frames2bit"
xc7frames2bit --part_file "{database}/{part}/part.yaml" --part_name {part} \\
    --frm_file {_TOP}.frames --output_file {_MADE[BIT]}
echo "{job.design}" > {_DESIGN}
"""


def _chip_names(board: Board) -> list[str]:
    """Return the names that a chip database goes by."""
    device = board.part.partition("-")[0]
    return [f"{board.part}.bin", f"{device}.bin", f"{device[:7]}.bin"]


def _check_family(board: Board) -> None:
    """Refuse a board whose family these tools do not know.

    Raises
    ------
    ConfigError
        Names the boards that they do.
    """
    if board.family != ZYNQ_7000:
        raise ConfigError(
            f"openXC7 must get a board with a Zynq-7000, pynq-z1 or pynq-z2, not {board.name}: use "
            "--flow vivado"
        )


def _check_databases(board: Board) -> None:
    """Refuse an environment without the databases of a board's part.

    Raises
    ------
    DeviceError
        One is not there.
    """
    for name, wanted in ((_CHIPS, _chip_names(board)), (_DATABASE, [f"zynq7/{board.part}"])):
        root = os.environ.get(name)
        if not root:
            raise DeviceError(
                f"openXC7's environment must set {name}, and does not: run its own set-up first, "
                "or write the files to build on another machine with --script-only"
            )
        if not any((Path(root) / each).exists() for each in wanted):
            raise DeviceError(
                f"{name} must name a folder with {' or '.join(wanted)}, and {root} has none: make "
                f"or install the database of {board.part}"
            )
