"""What goes to a board beside vdla itself, and whether it belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vdla.bitstreams import Manifest, find, read
from vdla.boards import BOARDS
from vdla.boards import board as board_named
from vdla.config import PRESETS, Config
from vdla.errors import DeviceError, OverlayError
from vdla.module import load
from vdla.runtime.devices import HARDWARE, NAMES

__all__ = ["Cargo"]


@dataclass(frozen=True, kw_only=True)
class Cargo:
    """What goes to a board beside vdla itself.

    Parameters
    ----------
    networks : sequence of Path
        Compiled networks.
    overlay : Path, optional
        A folder with an overlay; by default what `vdla.bitstreams.find` has for the board.
    board : str, optional
        Which board it is; by default the overlay's, or what the board says.
    device : str
        What the self-test runs on: ``pynq``, unless there is no accelerator.
    """

    networks: Sequence[Path] = ()
    overlay: Path | None = None
    board: str | None = None
    device: str = "pynq"

    def check(self) -> None:
        """Refuse what needs no board to be seen as wrong; see `manifest`."""
        if self.device not in (*NAMES, *HARDWARE):
            raise DeviceError(
                f"A self-test must run on one of {', '.join((*NAMES, *sorted(HARDWARE)))}, not on "
                f"{self.device!r}: choose one"
            )
        if self.board is not None:
            board_named(self.board)
        if self.overlay is not None:
            self.config(self.manifest())
        for path in self.networks:
            load(path)

    def config(self, manifest: Manifest | None) -> Config | None:
        """Return the configuration that is tested: the networks', or else the overlay's.

        Raises
        ------
        OverlayError
            Only the overlay says one, and it has no name that is known here.
        """
        if self.networks:
            return load(self.networks[0]).config
        if manifest is None:
            return None
        found = PRESETS.get(manifest.config)
        if found is None or f"{found.hash:016x}" != manifest.config_hash:
            raise OverlayError(
                f"An overlay of a configuration without a name here, {manifest.config} (hash "
                f"{manifest.config_hash}), is tested with a network that was compiled for it: name "
                "one, as vdla compile MODEL --config FILE.toml writes it"
            )
        return found

    def manifest(self, here: str = "") -> Manifest | None:
        """Return the overlay, fit for the board and the networks.

        Parameters
        ----------
        here : str
            What the board says it is, empty if nothing.

        Raises
        ------
        VdlaError
            A file is not what it should be, or one does not go with another.
        """
        modules = {path: load(path) for path in self.networks}
        board = here if self.board is None else self.board
        if self.overlay is not None:
            found = read(self.overlay)
        elif board:
            try:
                found = find(board)
            except OverlayError:
                if self.device == "pynq":
                    raise
                return None
        elif self.device == "pynq":
            raise DeviceError(
                "A board or an overlay must be named where the board does not say what it is: "
                f"give --board, one of {', '.join(BOARDS)}, or --overlay FOLDER"
            )
        else:
            return None
        board_named(found.board)
        if board and found.board != board:
            raise OverlayError(
                f"An overlay must be for the board, {board}, and the one in {found.folder} is for "
                f"{found.board}: name another with --overlay, or build one with: "
                f"vdla bitstream --board {board}"
            )
        if self.board and here and self.board != here:
            raise DeviceError(
                f"The board must be what --board says, {self.board}, and it says that it is {here}"
            )
        for path, module in modules.items():
            config = module.config
            if found.config_hash != f"{config.hash:016x}":
                raise OverlayError(
                    f"A network must be compiled for the overlay's configuration, {found.config} "
                    f"(hash {found.config_hash}), and {path} is for {config.name} (hash "
                    f"{config.hash:016x}): compile it again with --config {found.config}, or take "
                    "another overlay with --overlay"
                )
        return found
