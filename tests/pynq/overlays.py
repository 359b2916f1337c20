"""Overlay folders as ``vdla bitstream`` leaves them, around a bitstream that holds a name only."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pynq

from tests.pynq.board import bitstream
from vdla.bitstreams import BIT, HWH, Manifest
from vdla.boards import BOARDS
from vdla.config import Config
from vdla.runtime.overlay import hardware_handoff

__all__ = ["write_overlay"]


def write_overlay(
    folder: Path,
    config: Config,
    *,
    board: str,
    design: str = "",
    manifest: bool = True,
    edit: tuple[str, str] = ("", ""),
    controller: bool = True,
    clock_mhz: float = 100.0,
    handoff_mhz: float = 0.0,
) -> Path:
    """Write an overlay and return its folder.

    `design` is what the FPGA turns into, `config`'s accelerator by default; `edit` replaces text
    of the hand-off file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handoff = hardware_handoff(
        BOARDS[board], config, handoff_mhz or clock_mhz, controller=controller
    ).replace(*edit)
    (folder / BIT).write_bytes(bitstream(design or config.name))
    (folder / HWH).write_text(handoff, encoding="utf-8")
    # XRT's description of the memory. pynq makes one with xclbinutil, which boards have; it ships
    # the one that it starts from.
    shutil.copy(Path(pynq.__file__).parent / "pl_server" / "default.xclbin", folder / "vdla.xclbin")
    if manifest:
        names = (BIT, HWH)
        Manifest(
            board=board,
            config=config.name,
            config_hash=f"{config.hash:016x}",
            clock_mhz=clock_mhz,
            slack_ns=0.1,
            tool="test",
            tool_version="1",
            date="2026-11-30",
            files={n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in names},
            folder=folder,
        ).write()
    return folder
