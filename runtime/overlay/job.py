"""What every way of building an overlay shares: the job, its checks, and how it ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree

from vdla.bitstreams import MANIFEST, Manifest, sha256
from vdla.boards import IP_NAME, VLNV, Board
from vdla.config import Config
from vdla.errors import DeviceError, OverlayError

from .processor import CONTROLLER, PROCESSOR

__all__ = [
    "Flow",
    "Job",
    "Progress",
    "check_design",
    "check_handoff",
    "check_timing",
    "design_of",
    "finish",
    "present",
    "write_texts",
]

Progress = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what is being worked on."""


@dataclass(frozen=True)
class Job:
    """An overlay to build.

    Parameters
    ----------
    board : Board
    config : Config
    clock_mhz : float
        PL clock.
    folder : Path
        Where the overlay goes.

    Raises
    ------
    ConfigError
        No divisors of the board make that clock.
    DeviceError
        The configuration's bus does not fit the board's ports.
    """

    board: Board
    config: Config
    clock_mhz: float
    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "clock_mhz", self.board.clock_mhz(self.clock_mhz))
        for name in ("axi_version", "axi_data_bits"):
            wanted, found = getattr(self.board.configuration, name), getattr(self.config, name)
            if wanted != found:
                raise DeviceError(
                    f"A configuration for {self.board.name} must have {name} {wanted}, as its "
                    f"port {self.board.memory_port} has, not {found}: use --config "
                    f"{self.board.config}, or change it"
                )

    @property
    def design(self) -> str:
        """What a build notes beside its results: board, hash of the configuration, clock in MHz."""
        return design_of(self.board, self.config, self.clock_mhz)

    @property
    def build(self) -> Path:
        """Folder in the overlay's own that holds sources and what the tools leave."""
        return self.folder / "build"


def design_of(board: Board, config: Config, clock_mhz: float) -> str:
    """Return `Job.design`."""
    return f"{board.name} {config.hash:016x} {board.clock_mhz(clock_mhz):.6g}"


class Flow(Protocol):
    """A way of building overlays."""

    def write(self, job: Job) -> list[Path]:
        """Write what an overlay is built from into the job's build folder."""

    def command(self, job: Job) -> str:
        """Return the shell command that builds it there."""

    def build(self, job: Job, progress: Progress | None = None) -> Manifest:
        """Build the overlay on this machine."""

    def collect(self, job: Job) -> Manifest:
        """Make an overlay of what the tools left in the job's build folder."""


def write_texts(folder: Path, texts: dict[str, str]) -> list[Path]:
    """Write files into a folder, made if needed, and return where they are.

    Raises
    ------
    OverlayError
        They cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OverlayError(
            f"An overlay's folder must be one that can be written: {folder}: {error.strerror}: "
            "name another with -o"
        ) from None
    return [folder / name for name in texts]


def present(folder: Path, names: list[str], remedy: str) -> None:
    """Refuse a build folder that lacks a file.

    Raises
    ------
    OverlayError
        Names the files and the remedy.
    """
    missing = [name for name in names if not (folder / name).is_file()]
    empty = [name for name in names if name not in missing and not (folder / name).stat().st_size]
    for lacking, what in ((missing, "missing"), (empty, "empty")):
        if lacking:
            raise OverlayError(
                f"A build must leave {', '.join(names)} in {folder}, and {', '.join(lacking)} "
                f"{'is' if len(lacking) == 1 else 'are'} {what}: build there with: {remedy}"
            )


def check_design(job: Job, built: str, remedy: str) -> None:
    """Refuse to take one design for another: its clock was met, or not, at its own.

    Raises
    ------
    OverlayError
        Names both designs and the remedy.
    """
    if built != job.design:
        raise OverlayError(
            f"A build must be of what is collected, {job.design} (board, hash of the "
            f"configuration, MHz), and the one in {job.build} is of {built or 'nothing known'}: "
            f"give the --board, --config and --clock that it was written with, or write it "
            f"again with --script-only and build there with: {remedy}"
        )


def check_timing(job: Job, slack_ns: float, report: Path) -> None:
    """Refuse a design that is too slow for its clock.

    Raises
    ------
    OverlayError
        States slack, clock and remedy.
    """
    if slack_ns >= 0:
        return
    reached = 1000 / (1000 / job.clock_mhz - slack_ns)
    slower = [mhz for mhz in job.board.clocks_mhz if mhz <= reached]
    remedy = f"build for a lower clock, --clock {max(slower):g}" if slower else "see the report"
    raise OverlayError(
        f"An overlay's timing must be met, and at {job.clock_mhz:g} MHz its worst slack is "
        f"{slack_ns:.3f} ns, which allows {reached:.1f} MHz: {remedy} ({report})"
    )


def check_handoff(board: Board, path: Path, *, controller: bool = True) -> None:
    """Refuse a hand-off file that does not say what a driver of the board relies on.

    Raises
    ------
    OverlayError
        It cannot be read, or has the accelerator under another name, type or address.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise OverlayError(f"A hand-off file must be XML: {path}: {error}") from None
    core = root.find(f".//MODULE[@INSTANCE='{IP_NAME}']")
    found = None if core is None else core.get("VLNV")
    if found != VLNV:
        raise OverlayError(
            f"A hand-off file must have {IP_NAME} of type {VLNV}, not of {found}: {path}"
        )
    wanted = {IP_NAME: board.address}
    if controller:
        wanted[CONTROLLER] = board.controller_address
    for instance, address in wanted.items():
        pattern = f".//MODULE[@INSTANCE='{PROCESSOR}']//MEMRANGE[@INSTANCE='{instance}']"
        at = [_hex(entry.get("BASEVALUE", "")) for entry in root.iterfind(pattern)]
        if at != [f"{address:#x}"]:
            raise OverlayError(
                f"A hand-off file must have {instance} at {address:#x}, not at "
                f"{', '.join(at) or 'no address'}: {path}"
            )


def _hex(text: str) -> str:
    """Return a number of a hand-off file in one way of writing; what is none as it is."""
    try:
        return hex(int(text, 16))
    except ValueError:
        return repr(text)


def finish(
    job: Job, files: dict[str, Path], *, slack_ns: float, tool: str, tool_version: str
) -> Manifest:
    """Put an overlay's files into its folder, and its manifest after them.

    Parameters
    ----------
    job : Job
    files : dict of str to Path
        Where each file is, by its name in the overlay.
    slack_ns, tool, tool_version
        For the manifest.
    """
    # From here to the new manifest there is none: the files are neither overlay's.
    (job.folder / MANIFEST).unlink(missing_ok=True)
    for name, source in files.items():
        partial = job.folder / f"{name}.partial"
        shutil.copyfile(source, partial)
        partial.replace(job.folder / name)
    manifest = Manifest(
        board=job.board.name,
        config=job.config.name,
        config_hash=f"{job.config.hash:016x}",
        clock_mhz=job.clock_mhz,
        slack_ns=slack_ns,
        tool=tool,
        tool_version=tool_version,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        files={name: sha256(job.folder / name) for name in files},
        folder=job.folder,
    )
    manifest.write()
    return manifest
