"""The table of a sweep: a row a point, the same whoever worked on it and in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vdla
from vdla.config import Config
from vdla.errors import InputError, VdlaError
from vdla.runtime.area import area, boards_for, energy_mj
from vdla.runtime.synthesis.parts import PARTS

from .axes import FIELDS
from .evaluate import OK
from .points import Point

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "row_of", "table_of", "write_table"]

_TEXT, _INT, _REAL, _FLAG = "string", "Int64", "Float64", "boolean"

COLUMNS: Mapping[str, str] = {
    "network": _TEXT,
    "config": _TEXT,
    **{name: _INT if kind is int else _REAL for name, kind in FIELDS.items()},
    "vthreads": _INT,
    "rank": _TEXT,
    "without": _TEXT,
    "place": _TEXT,
    "device": _TEXT,
    "config_hash": _TEXT,
    "version": _TEXT,
    "seed": _INT,
    "key": _TEXT,
    "status": _TEXT,
    "reason": _TEXT,
    "cycles": _INT,
    "milliseconds": _REAL,
    "frames_per_second": _REAL,
    "macs": _INT,
    "mac_utilization": _REAL,
    "dram_bytes": _INT,
    "memory_used_bytes": _INT,
    "lut": _INT,
    "ff": _INT,
    "dsp": _INT,
    "bram36": _REAL,
    "area_source": _TEXT,
    "fits": _TEXT,
    "energy_mj_model": _REAL,
    "layers_vdla": _INT,
    "layers_cpu": _INT,
    "bit_exact": _FLAG,
}
"""Columns of every table, and the type of each; a value that there is not is missing."""


def row_of(point: Point, key: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a point.

    LUTs and flip-flops are yosys's or a model's, as ``area_source`` says; ``fits`` names the boards
    that have enough of everything. ``energy_mj_model`` compares designs and predicts no board.
    ``milliseconds`` are one pass at the configuration's clock, ``frames_per_second`` the images of
    such passes one after another; neither counts what the cpu computes.
    """
    row: dict[str, Any] = {
        "network": point.network,
        "config": point.base,
        **point.fields,
        "vthreads": point.options["vthreads"],
        "rank": point.options["rank"],
        "without": " ".join(point.options["without"]),
        "place": " ".join(f"{node}={device}" for node, device in point.options["place"].items()),
        "device": point.options["device"],
        "version": vdla.__version__,
        "seed": point.seed,
        "key": key,
        "status": result["status"],
        "reason": result["reason"],
    }
    try:
        config = point.config()
    except VdlaError:
        return row
    row["config_hash"] = f"{config.hash:016x}"
    row |= _area(config, point.base)
    if result["status"] == OK:
        row |= {name: result[name] for name in result.keys() & COLUMNS.keys()}
        row["memory_used_bytes"] = result["memory_bytes"]
        row["memory_bytes"] = config.memory_bytes
        if result["cycles"]:
            row["milliseconds"] = result["cycles"] / config.clock_mhz / 1e3
            row["energy_mj_model"] = energy_mj(
                config, macs=result["macs"] * result["images"], dram_bytes=result["dram_bytes"]
            )
            row["frames_per_second"] = 1e3 * result["images"] / row["milliseconds"]
    return row


def _area(config: Config, base: str) -> dict[str, Any]:
    """Return what a configuration takes of the part of the board that it was changed from."""
    known = area(config, PARTS.get(base, PARTS["pynq-z1"]).family)
    fitting = [room.board for room in boards_for(config) if room.fits]
    return {**known.total.to_dict(), "area_source": known.source, "fits": " ".join(fitting)}


def table_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a table with every one of `COLUMNS`."""
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.array([row.get(name) for row in rows], dtype=kind)
            for name, kind in COLUMNS.items()
        }
    )


def write_table(table: pd.DataFrame, folder: Path, name: str) -> list[Path]:
    """Write a table as Parquet and as CSV, each whole or not at all, and return their paths.

    Raises
    ------
    InputError
        The folder cannot be written.
    ModuleNotFoundError
        pyarrow is not installed.
    """
    kinds: dict[str, Callable[[Path], object]] = {
        ".parquet": lambda path: table.to_parquet(path, index=False, engine="pyarrow"),
        ".csv": lambda path: table.to_csv(path, index=False),
    }
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending, write in kinds.items():
            path = folder / f"{name}{ending}"
            part = path.with_suffix(f".part{ending}")
            write(part)
            part.replace(path)
            written.append(path)
    except OSError as error:
        raise InputError(
            f"A sweep's table must go to a folder that can be written: {folder}: "
            f"{error.strerror}; name another one."
        ) from None
    return written
