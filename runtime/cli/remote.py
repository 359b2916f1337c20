"""``vdla run --device pynq@HOST``: the same command on a board, its result shown here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from vdla.runtime.cli.output import emit_json, note, progress_bar
from vdla.runtime.cli.report import show_run
from vdla.runtime.cli.streaming import show_stream

__all__ = ["run_on_board"]


def run_on_board(
    host: str,
    file: Path,
    given: Mapping[str, Path | None],
    options: Sequence[str] = (),
    *,
    as_json: bool,
) -> None:
    """Send a network and its input to a board, run it there, and print what comes back.

    Leaves with exit code 1 where ``--check`` finds a difference.

    Parameters
    ----------
    host : str
        ``USER@HOST:PORT``; user and port may be left out.
    file : Path
        The compiled network.
    given : mapping of str to Path
        Files by the option that takes them; None for those that are not given.
    options : sequence of str
        What else goes with ``vdla run`` there.
    as_json : bool

    Raises
    ------
    DeviceError
        The board cannot be reached, or says why it cannot run the network.
    """
    from vdla.runtime.cli.flash import ask_password
    from vdla.runtime.flash.remote import run_remote

    named = {option: path for option, path in given.items() if path is not None}
    arguments = [str(file), *options]
    for option, path in named.items():
        arguments += [option, str(path)]
    with progress_bar("on the board") as progress:
        report = run_remote(
            host,
            arguments,
            [file, *named.values()],
            ask=ask_password,
            progress=progress,
            line=note,
        )
    if as_json:
        emit_json(report)
    elif "images" in report:
        show_stream(report)
    else:
        show_run(report)
    if report.get("bit_exact") is False:
        raise typer.Exit(1)
