"""How commands speak: results on stdout, everything about the work on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from vdla.errors import InputError

__all__ = ["emit_json", "fail", "fits", "note", "progress_bar", "show_table", "write_file"]

FAILED = 2
GAP = 2  # spaces between the columns of a table
PIPE_WIDTH = 250  # characters; a pipe has no width of its own, and its reader wants whole lines

ProgressCallback = Callable[[int, int, str], None]


def emit_json(value: Any) -> None:
    """Write `value` to stdout as JSON, numpy scalars as the numbers they are."""
    typer.echo(json.dumps(value, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy's scalars and arrays, without importing numpy
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def fail(message: str) -> NoReturn:
    """Say on one red line of stderr what is wrong, and leave with exit code 2."""
    line = " ".join(message.split())
    Console(stderr=True, soft_wrap=True).print(
        f"vdla: {line}", style="bold red", markup=False, highlight=False
    )
    raise typer.Exit(FAILED)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that the user named, its folder made if needed.

    Raises
    ------
    InputError
        It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise InputError(
            f"A file to write must be in a folder that can be written: {path}: {error.strerror}; "
            "name another one"
        ) from None


def note(message: str) -> None:
    """Say on stderr something the reader of the result should know."""
    Console(stderr=True, soft_wrap=True).print(message, style="dim", markup=False, highlight=False)


@contextmanager
def progress_bar(title: str, *, remaining: bool = False) -> Iterator[ProgressCallback]:
    """Show a bar on stderr while the block runs; gone when it ends, absent where no one looks.

    Parameters
    ----------
    title : str
    remaining : bool
        Whether the time left is shown, too: for steps that take about the same time each.

    Yields
    ------
    Callable[[int, int, str], None]
        To be called with the steps done, the steps in all, and what is being worked on.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *([TextColumn("left"), TimeRemainingColumn()] if remaining else []),
        TextColumn("{task.fields[doing]}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task(title, total=None, doing="")

        def update(done: int, total: int, doing: str = "") -> None:
            bars.update(task, completed=done, total=total, doing=doing)

        yield update


def fits(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table goes into the terminal with no cell broken."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    return sum(widths) + GAP * (len(widths) - 1) <= _stdout().width


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int) -> None:
    """Print a table to stdout; the first `text_columns` are words, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for index, column in enumerate(columns):
        words = index < text_columns
        justify: JustifyMethod = "left" if words else "right"
        table.add_column(column, justify=justify, no_wrap=words, overflow="fold")
    for row in rows:
        table.add_row(*row)
    _stdout().print(table)


def _stdout() -> Console:
    console = Console(markup=False, highlight=False)
    if console.is_terminal:
        return console
    return Console(markup=False, highlight=False, width=PIPE_WIDTH)
