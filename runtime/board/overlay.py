"""Opening an overlay: which one, whether it is the right one, its accelerator, its clock."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from vdla.bitstreams import BIT, HWH, MANIFEST, Manifest, find, read
from vdla.boards import BOARDS, VLNV, Board, board, board_of_image
from vdla.config import PRESETS, Config
from vdla.errors import DeviceError

from .lock import BoardLock

__all__ = ["OpenOverlay", "board_here", "config_here", "import_pynq", "open_overlay"]

ENVIRONMENT = "VDLA_OVERLAY"
"""A bitstream, a folder with one, or a board's name, to open where none is named."""

_DEVICE_TREE = Path("/proc/device-tree/chosen/pynq_board")
_CLOCK_TOLERANCE = 0.01


def import_pynq() -> ModuleType:
    """Return pynq.

    Raises
    ------
    DeviceError
        It is not installed, or not whole.
    """
    try:
        import pynq
    except ImportError as error:
        here = board_here()
        wanted = " ".join(f"'{word}'" for word in (here or BOARDS["zcu104"]).pynq)
        raise DeviceError(
            f"A board is driven through pynq, which cannot be imported ({error}): on PYNQ's image "
            f"it is in /usr/local/share/pynq-venv, elsewhere install it with: pip install {wanted}"
        ) from error
    return pynq  # type: ignore[no-any-return]


def board_here() -> Board | None:
    """Return the board that this is, by what PYNQ's image says; None elsewhere."""
    name = os.environ.get("BOARD", "")
    with suppress(OSError):
        name = _DEVICE_TREE.read_text(encoding="ascii").strip("\0\n ") or name
    return board_of_image(name)


@dataclass
class OpenOverlay:
    """An overlay on the board.

    Attributes
    ----------
    overlay : pynq.Overlay
    ip : VdlaIP
    manifest : Manifest or None
        None for a bitstream that came without.
    clock_mhz : float
        Read back from the board.
    lock : BoardLock
    """

    overlay: Any
    ip: Any
    manifest: Manifest | None
    clock_mhz: float
    lock: BoardLock
    state: tuple[int, int] | None = None

    def require_loaded(self) -> None:
        """Look whether the overlay is the one that was loaded last, by this process or another.

        Raises
        ------
        DeviceError
            Another one was loaded since.
        """
        if not self.overlay.is_loaded() or _state() != self.state:
            raise DeviceError(
                f"An overlay must stay loaded while its accelerator is used, and another one has "
                f"taken the place of {self.overlay.bitfile_name}: open the device again, and load "
                "no other overlay meanwhile."
            )


def open_overlay(source: str | Path | None, config: Config, device: Any = None) -> OpenOverlay:
    """Load an overlay onto the board, and find its accelerator.

    Parameters
    ----------
    source : str or Path, optional
        A bitstream, a folder with one, or a board's name; by default ``VDLA_OVERLAY``, then the
        board that this is.
    config : Config
        What it must be of.
    device : pynq.Device, optional
        pynq's active one by default.

    Raises
    ------
    DeviceError, OverlayError
        There is no board, no pynq, no overlay, or it is not of that configuration; another process
        has the board; the clock cannot be set.
    """
    bit, manifest = _files(source)
    if manifest is not None:
        manifest.require(config)
        _require_part(manifest)
    pynq = import_pynq()
    device = _device(pynq) if device is None else device
    lock = BoardLock(str(device.tag))
    try:
        overlay, ip = _load(pynq, bit, device)
        ip.driver.require(config)
        clock_mhz = _clock(pynq, manifest, config)
    except BaseException:
        lock.release()
        raise
    return OpenOverlay(overlay, ip, manifest, clock_mhz, lock, _state())


def config_here() -> Config:
    """Return the configuration of the overlay that is opened where none is named.

    Raises
    ------
    DeviceError, OverlayError
        There is no board or no overlay, or only its hash is known.
    """
    bit, manifest = _files(None)
    if manifest is None:
        raise DeviceError(
            f"A configuration must be named for a bitstream without a manifest, such as {bit}: "
            "give --config"
        )
    found = PRESETS.get(manifest.config)
    if found is None or f"{found.hash:016x}" != manifest.config_hash:
        raise DeviceError(
            f"A configuration without a name here, {manifest.config} (hash "
            f"{manifest.config_hash}), must come from its file: give --config FILE.toml"
        )
    return found


def _files(source: str | Path | None) -> tuple[Path, Manifest | None]:
    source = source or os.environ.get(ENVIRONMENT) or None
    if source is None:
        here = board_here()
        if here is None:
            raise DeviceError(
                f"The device pynq must run on a board, one of {', '.join(BOARDS)}, and this "
                "machine does not say that it is one (BOARD is not set, and the device tree names "
                f"none): name the overlay with {ENVIRONMENT}, or run on the board."
            )
        source = here.name
    path = Path(source)
    if path.is_dir():
        path = path / BIT
    if path.suffix != ".bit":
        found = find(board(str(source)).name)
        return found.bit, found
    missing = [p for p in (path, path.with_suffix(Path(HWH).suffix)) if not p.is_file()]
    if missing:
        raise DeviceError(
            f"An overlay must be a .bit file with a .hwh file of the same name beside it, and "
            f"there is no {missing[0]}: copy both from where it was built."
        )
    whole = path.name == BIT and (path.parent / MANIFEST).is_file()
    return path.resolve(), read(path.parent) if whole else None


def _require_part(manifest: Manifest) -> None:
    here = board_here()
    built = board(manifest.board)
    if here is not None and here.part != built.part:
        raise DeviceError(
            f"An overlay must be built for the board's FPGA, {here.part} of {here.name}, not for "
            f"{built.part} of {built.name}: build it with: vdla bitstream --board {here.name}"
        )


def _device(pynq: ModuleType) -> Any:
    try:
        return pynq.Device.active_device
    except RuntimeError as error:
        raise DeviceError(
            f"The device pynq must run on a board, and pynq finds none ({error}): on the board, "
            "run as root with the environment of PYNQ, that is after: sudo -i"
        ) from error


def _load(pynq: ModuleType, bit: Path, device: Any) -> tuple[Any, Any]:
    from .ip import VdlaIP  # binds itself to the core, before the overlay looks for drivers

    try:
        overlay = pynq.Overlay(str(bit), device=device)
    except Exception as error:
        root = "" if os.geteuid() == 0 else "; it must run as root: sudo -i"
        raise DeviceError(
            f"pynq must be able to load {bit}, and {type(error).__name__} came of it: {error}"
            f"{root}. If it persists, build or copy the overlay again."
        ) from error
    family = VLNV.rpartition(":")[0]
    cores = {name: str(entry["type"]) for name, entry in overlay.ip_dict.items()}
    ours = {name: vlnv for name, vlnv in cores.items() if vlnv.startswith(family + ":")}
    if VLNV not in ours.values():
        others = ours or {n: v for n, v in cores.items() if not v.startswith("xilinx.com:ip:z")}
        has = ", ".join(f"{name} ({vlnv})" for name, vlnv in others.items()) or "no cores"
        raise DeviceError(
            f"An overlay must contain the core {VLNV}, and {bit} has {has}: load one that "
            "vdla bitstream built, with this version of vdla."
        )
    name = next(name for name, vlnv in ours.items() if vlnv == VLNV)
    ip = overlay
    try:
        for part in name.split("/"):
            ip = getattr(ip, part)
    except OSError as error:
        raise DeviceError(
            f"The registers of {name} must be mapped, and that failed ({error}): run as root, "
            "after: sudo -i"
        ) from error
    if not isinstance(ip, VdlaIP):
        raise DeviceError(
            f"The core {name} must be driven by vdla, and pynq gave it {type(ip).__name__}: "
            f"another package has bound a driver to {VLNV}; uninstall it."
        )
    return overlay, ip


def _clock(pynq: ModuleType, manifest: Manifest | None, config: Config) -> float:
    """Set the clock that timing was met for where it is another one, and read it back."""
    built = config.clock_mhz if manifest is None else manifest.clock_mhz
    found = float(pynq.Clocks.fclk0_mhz)
    if manifest is None or abs(found - built) <= _CLOCK_TOLERANCE * built:
        return found
    pynq.Clocks.fclk0_mhz = built
    found = float(pynq.Clocks.fclk0_mhz)
    if abs(found - built) > _CLOCK_TOLERANCE * built:
        raise DeviceError(
            f"The accelerator's clock must be the {built:g} MHz that its overlay was built for, "
            f"and reads {found:g} MHz after it was set: the image's PLLs are set up in another "
            "way; build the overlay for a clock that divides them, with vdla bitstream --clock"
        )
    return found


def _state() -> tuple[int, int] | None:
    """Return what changes when any process loads an overlay: pynq's note of the one loaded last."""
    from pynq.pl_server import global_state

    with suppress(OSError, AttributeError):
        found = Path(global_state.STATE_DIR, "global_pl_state_.json").stat()
        return found.st_mtime_ns, found.st_size
    return None
