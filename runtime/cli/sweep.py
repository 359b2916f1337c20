"""``vdla sweep``: many machines and networks, to the cycle, kept point by point."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.errors import InputError
from vdla.runtime.cli.options import JsonOption
from vdla.runtime.cli.output import emit_json, note, progress_bar, show_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["sweep"]

_SHOWN = 40


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What varies; docs/sweeps.md.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Where results are kept and the table is written; SPEC.sweep without.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler's, tcp://HOST:8786."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes of this machine; one a core without."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Only part I of N, for arrays of jobs."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compile and run every point of a sweep; what is interrupted goes on where it stopped."""
    if not spec.is_file():
        raise InputError(f"A sweep must be described by a file, and {spec} is none: name it.")
    folder = spec.with_suffix(".sweep") if output is None else output
    part = None if shard is None else _shard(shard)

    from vdla.runtime.sweep import sweep as run

    with progress_bar("sweep", remaining=True) as progress:
        table = run(
            spec,
            folder=folder,
            workers=workers,
            scheduler=scheduler,
            shard=part,
            progress=progress,
        )
    if as_json:
        emit_json({"folder": str(folder), "points": json.loads(table.to_json(orient="records"))})
        return
    _show(table)
    note(f"all columns: {folder}/table{'' if part is None else f'-{part[0]}-of-{part[1]}'}.csv")


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None:
        raise InputError(
            f"--shard must be a part and a number of parts, such as 1/4, not {text!r}."
        )
    return int(match[1]), int(match[2])


def _show(table: pd.DataFrame) -> None:
    """Print what varies, and the main figures."""
    settings = list(table.columns[: table.columns.get_loc("config_hash")])
    varying = [name for name in settings if table[name].nunique(dropna=False) > 1]
    figures = ["cycles", "frames_per_second", "mac_utilization", "dram_bytes"]
    figures += [name for name in ("lut", "dsp", "bram36") if name in table]
    good, failed = table[table["status"] == "ok"], table[table["status"] != "ok"]
    columns = ["network", *(name for name in varying if name != "network")]
    rows = [
        [str(row[name]) for name in columns] + [_figure(name, row[name]) for name in figures]
        for _, row in good.head(_SHOWN).iterrows()
    ]
    if rows:
        show_table([*columns, *figures], rows, text_columns=1)
    if len(good) > _SHOWN:
        typer.echo(f"and {len(good) - _SHOWN} more")
    for reason, count in failed["reason"].value_counts().items():
        typer.echo(f"{count} failed: {reason}")


def _figure(name: str, value: Any) -> str:
    if str(value) in ("<NA>", "None", "nan"):
        return "-"
    if name == "mac_utilization":
        return f"{100 * value:.1f} %"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
