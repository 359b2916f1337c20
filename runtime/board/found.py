"""What a machine has of a board, looked at without touching the board."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from vdla.bitstreams import Manifest, find
from vdla.boards import BOARDS
from vdla.errors import OverlayError

from .memory import free_bytes
from .overlay import board_here

__all__ = ["BoardFound", "look"]


@dataclass(frozen=True)
class BoardFound:
    """A board, or what is missing of one.

    Attributes
    ----------
    board : str or None
        Name of the board that this machine is.
    pynq : str or None
        Version that is installed.
    overlay : Manifest or None
        Found for the board.
    loaded : str or None
        The bitstream that pynq loaded last.
    memory : tuple of int, optional
        Contiguous bytes, free and in all.
    missing : list of str
        What to do before the device can be opened, in order.
    """

    board: str | None = None
    pynq: str | None = None
    overlay: Manifest | None = None
    loaded: str | None = None
    memory: tuple[int, int] | None = None
    missing: list[str] = field(default_factory=list)


def look() -> BoardFound:
    """Return what there is, importing no pynq."""
    here, missing, overlay, version = board_here(), [], None, None
    with suppress(metadata.PackageNotFoundError):
        version = metadata.version("pynq")
    if here is None:
        missing.append(
            f"this machine is none of {', '.join(BOARDS)}: run vdla on the board, or give "
            "--device pynq@HOST"
        )
    if version is None:
        wanted = (here or BOARDS["zcu104"]).pynq
        words = " ".join(f"'{word}'" for word in wanted)
        missing.append(
            "pynq is not installed: on PYNQ's image use its environment, after: sudo -i"
            if here
            else f"pynq is not installed: pip install {words}"
        )
    if here is not None:
        try:
            overlay = find(here.name)
        except OverlayError as error:
            missing.append(str(error))
    return BoardFound(
        here.name if here else None, version, overlay, _loaded(), free_bytes(), missing
    )


def _loaded() -> str | None:
    """Return the bitstream that pynq notes as loaded last."""
    spec = find_spec("pynq")
    if spec is None or spec.origin is None:
        return None
    note = Path(spec.origin).parent / "pl_server" / "global_pl_state_.json"
    with suppress(OSError, ValueError):
        return str(json.loads(note.read_text(encoding="utf-8")).get("bitfile_name"))
    return None
