"""``vdla records``: what tuning has measured, merged, pruned, and looked into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.runtime.cli.options import JsonOption
from vdla.runtime.cli.output import emit_json, note, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vdla.runtime.tune.log import Log

__all__ = ["app"]

app = typer.Typer(help="Merge, prune and show what tuning has measured.", no_args_is_help=True)

_Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Records, as vdla tune writes them.")
]


@app.command("merge")
def merge(
    files: _Files,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where they go; it is added to.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Put the records of several files into one, each once."""
    from vdla.runtime.tune import records
    from vdla.runtime.tune.log import Log

    logs = _opened(files)
    done = records.merge(logs, Log(output))
    if as_json:
        emit_json({"file": str(output), **done})
        return
    typer.echo(
        f"{output}: {done['records']} records, {done['added']} of them new; "
        f"{done['duplicates']} were there twice"
    )


@app.command("prune")
def prune(
    files: _Files,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, metavar="N", help="Of each task, the N cheapest records."),
    ] = None,
    failures: Annotated[
        bool,
        typer.Option(
            "--failures/--no-failures",
            help="Keep what failed, which a search does not try again, or drop it.",
        ),
    ] = True,
    versions: Annotated[
        bool,
        typer.Option(
            "--versions/--newest",
            help="Keep records of every version of a template, or of its newest in the file.",
        ),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Drop records that are of no use, in place; each file is written whole or not at all."""
    from vdla.runtime.tune import records

    done = {
        str(log.path): records.prune(log, keep, failures=failures, versions=versions)
        for log in _opened(files)
    }
    if as_json:
        emit_json({"files": done})
        return
    for name, counts in done.items():
        typer.echo(f"{name}: {counts['kept']} records kept, {counts['dropped']} dropped")


@app.command("best")
def best(files: _Files, as_json: JsonOption = False) -> None:
    """Show the cheapest schedule of each task."""
    from vdla.runtime.tune import records

    logs = _opened(files)
    rows = records.best(logs)
    if as_json:
        emit_json({"tasks": rows, "files": _counted(logs)})
        return
    columns = ["task", "target", "schedule", "best", "", "trials"]
    table = [
        [
            row["task"],
            _target(row["target"]),
            " ".join(f"{name}={value}" for name, value in row["point"].items()),
            f"{row['cost']:,.6g}" if row["unit"] == "seconds" else f"{row['cost']:,.0f}",
            row["unit"],
            f"{row['trials']:,}",
        ]
        for row in rows
    ]
    show_table(columns, table, text_columns=0)


@app.command("stats")
def stats(files: _Files, as_json: JsonOption = False) -> None:
    """Count what was measured of each task, and what became of it."""
    from vdla.runtime.tune import records

    logs = _opened(files)
    rows = records.stats(logs)
    if as_json:
        emit_json({"tasks": rows, "files": _counted(logs)})
        return
    columns = ["task", "target", "vdla", "template", "trials", "ok", "failed", "best", ""]
    table = [
        [
            row["task"],
            _target(row["target"]),
            ", ".join(row["tools"]),
            str(row["template"]),
            f"{row['trials']:,}",
            f"{row['ok']:,}",
            ", ".join(f"{count} {kind}" for kind, count in row["failures"].items()) or "-",
            "-" if row["best"] is None else f"{row['best']:,.6g}",
            row["unit"],
        ]
        for row in rows
    ]
    show_table(columns, table, text_columns=0)


def _opened(files: Sequence[Path]) -> list[Log]:
    """Return files, and say what of them is not used."""
    from vdla.runtime.tune.log import Log

    logs = [Log(path) for path in files]
    for log in logs:
        for sentence in log.read().said(log.path):
            note(sentence)
    return logs


def _counted(logs: Sequence[Log]) -> dict[str, Any]:
    read = {str(log.path): log.read() for log in logs}
    return {
        name: {"records": len(found.records), "foreign": found.foreign, "cut": found.cut}
        for name, found in read.items()
    }


def _target(target: dict[str, Any]) -> str:
    """Return what a task is for: the kind of machine, and what of it decides."""
    others = (f"{name} {value}" for name, value in target.items() if name != "kind")
    return f"{target.get('kind', '')} ({', '.join(others)})"
