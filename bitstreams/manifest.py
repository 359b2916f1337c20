"""An overlay's manifest: which board and configuration its files are for, and whether whole."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from vdla.config import Config
from vdla.errors import OverlayError
from vdla.registers import INTERFACE

__all__ = ["BIT", "HWH", "MANIFEST", "Manifest", "find", "places", "read", "sha256"]

BIT, HWH, MANIFEST = "vdla.bit", "vdla.hwh", "manifest.json"
"""Names of an overlay's files; pynq finds the second by the name of the first."""

FORMAT = 1
"""Version of the manifest; one that reads older ones too is the same version."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is said of an overlay.

    Parameters
    ----------
    board : str
        Name of the board.
    config, config_hash : str
        Name of the configuration, and its hash in 16 hexadecimal digits.
    clock_mhz : float
        PL clock for which timing was met.
    slack_ns : float
        By which it was met, at the worst path.
    tool, tool_version : str
        What made the bitstream.
    date : str
        When, as ISO 8601.
    files : dict of str to str
        SHA-256 of each file, by name.
    interface : tuple of int
        Version of registers and instructions.
    format : int
        Version of the manifest.
    folder : Path
        Where the files are.
    """

    board: str
    config: str
    config_hash: str
    clock_mhz: float
    slack_ns: float
    tool: str
    tool_version: str
    date: str
    files: dict[str, str]
    interface: tuple[int, int] = INTERFACE
    format: int = FORMAT
    folder: Path = field(default=Path(), compare=False)

    @property
    def bit(self) -> Path:
        """The bitstream."""
        return self.folder / BIT

    @property
    def hwh(self) -> Path:
        """The hardware hand-off file."""
        return self.folder / HWH

    def require(self, config: Config) -> None:
        """Refuse an overlay of another configuration.

        Raises
        ------
        OverlayError
            Names both configurations.
        """
        if self.config_hash != f"{config.hash:016x}":
            raise OverlayError(
                f"An overlay must be of the configuration asked for, {config.name} (hash "
                f"{config.hash:016x}), not {self.config} (hash {self.config_hash}): {self.folder}: "
                f"build it with: vdla bitstream --board {self.board}"
            )

    def write(self) -> Path:
        """Write the manifest beside its files, last of all, whole or not at all.

        Raises
        ------
        OverlayError
            Timing was not met, or a file is not what the manifest says.
        """
        if self.slack_ns < 0:
            raise OverlayError(
                f"An overlay's timing must be met, and its worst slack at {self.clock_mhz:g} MHz "
                f"is {self.slack_ns:.3f} ns: build it for a lower clock, with --clock"
            )
        self.verify()
        values = asdict(self)
        del values["folder"]
        target = self.folder / MANIFEST
        partial = target.with_suffix(".partial")
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        partial.replace(target)
        return target

    def verify(self) -> None:
        """Compare the files with their hashes.

        Raises
        ------
        OverlayError
            A file is missing or has changed.
        """
        for name in (BIT, HWH):
            if name not in self.files:
                raise OverlayError(
                    f"An overlay's manifest must list {name}, and lists "
                    f"{', '.join(self.files) or 'nothing'}: {self.folder / MANIFEST}: {_AGAIN}"
                )
        for name, expected in self.files.items():
            path = self.folder / name
            try:
                found = sha256(path)
            except OSError as error:
                raise OverlayError(
                    f"An overlay must have all its files: {path}: {error.strerror}: {_AGAIN}"
                ) from None
            if found != expected:
                raise OverlayError(
                    f"A file of an overlay must be as it was built, with SHA-256 {expected}, and "
                    f"has {found}: {path}: {_AGAIN}"
                )


_AGAIN = "build the overlay or copy it again"


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(folder: str | Path) -> Manifest:
    """Read an overlay's manifest and check its files.

    Raises
    ------
    OverlayError
        No overlay is there, its manifest or a file is damaged, or it is of another version.
    """
    path = Path(folder) / MANIFEST
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OverlayError(
            f"An overlay must have a manifest: {path}: {error.strerror}: build the overlay with: "
            "vdla bitstream"
        ) from None
    except ValueError as error:
        raise OverlayError(
            f"An overlay's manifest must be JSON: {path}: {error}: {_AGAIN}"
        ) from None
    manifest = _parse(values, path)
    manifest.verify()
    return manifest


def _parse(values: Any, path: Path) -> Manifest:
    if not isinstance(values, dict):
        raise OverlayError(f"An overlay's manifest must be a JSON object: {path}: {_AGAIN}")
    version = values.get("format")
    if version != FORMAT:
        raise OverlayError(
            f"An overlay's manifest must be of format {FORMAT}, which this vdla reads, not "
            f"{version!r}: {path}: install the vdla that made it, or build the overlay again"
        )
    named = {entry.name: entry.type for entry in fields(Manifest) if entry.name != "folder"}
    for name, wanted in named.items():
        if not _is(values.get(name), str(wanted)):
            raise OverlayError(
                f"An overlay's manifest must give {name} as {wanted}, not {values.get(name)!r}: "
                f"{path}: {_AGAIN}"
            )
    interface = tuple(values["interface"])
    if interface[0] != INTERFACE[0]:
        raise OverlayError(
            f"An overlay's registers must be of version {INTERFACE[0]}, which this vdla speaks, "
            f"not {interface[0]}: {path}: build the overlay again"
        )
    known = {name: values[name] for name in named} | {"interface": interface}
    return Manifest(**known, folder=path.parent)


def _is(value: Any, wanted: str) -> bool:
    if wanted == "str":
        return isinstance(value, str)
    if wanted == "int":
        return type(value) is int
    if wanted == "float":
        return type(value) in (int, float)
    if wanted == "tuple[int, int]":
        return isinstance(value, list) and [type(each) for each in value] == [int, int]
    return isinstance(value, dict) and all(
        isinstance(part, str) for pair in value.items() for part in pair
    )


def places(board: str) -> list[Path]:
    """Return the folders where a board's overlay is looked for, in this order.

    ``$VDLA_OVERLAYS/NAME``, then ``~/.local/share/vdla/overlays/NAME``, where ``vdla flash`` puts
    it, then the folder of this package.
    """
    asked = os.environ.get("VDLA_OVERLAYS")
    roots = [Path(asked)] if asked else []
    roots += [Path.home() / ".local/share/vdla/overlays", Path(__file__).parent]
    return [root / board for root in roots]


def find(board: str) -> Manifest:
    """Return the overlay of a board, from the first of its `places` that holds one.

    Raises
    ------
    OverlayError
        There is none, or it is damaged, or for another board or version.
    """
    looked = places(board)
    for folder in looked:
        if (folder / MANIFEST).exists():
            found = read(folder)
            if found.board != board:
                raise OverlayError(
                    f"An overlay for {board} must be in {folder}, not one for {found.board}: "
                    f"build it with: vdla bitstream --board {board} -o {folder}"
                )
            return found
    raise OverlayError(
        f"An overlay for {board} must be in one of {', '.join(map(str, looked))}: build one with: "
        f"vdla bitstream --board {board}"
    )
