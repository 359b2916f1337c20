"""``--vcd``, ``--fst`` and ``--window``: signals of the gateware in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vdla.runtime.cli.output import note

if TYPE_CHECKING:
    from vdla.runtime.run import Run
    from vdla.runtime.waves import Waves

__all__ = ["FstOption", "VcdOption", "WindowOption", "note_empty", "waves_of"]

VcdOption = Annotated[
    Path | None,
    typer.Option("--vcd", metavar="FILE.vcd", help="With --device rtl: write its signals as VCD."),
]
FstOption = Annotated[
    Path | None,
    typer.Option(
        "--fst", metavar="FILE.fst", help="The same as FST, which is several times smaller."
    ),
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="START:STOP",
        help="The cycles that are written: of signals 0:10000 if not given, of a trace all.",
    ),
]


def waves_of(
    vcd: Path | None,
    fst: Path | None,
    window: str | None,
    device: str,
    *,
    traced: bool = False,
) -> Waves | None:
    """Return what the options ask for, checked before anything slow happens.

    With `traced`, the window may be that of a trace instead.

    Raises
    ------
    InputError
        The file cannot be written, or the window holds no cycle.
    """
    if vcd is not None and fst is not None:
        raise typer.BadParameter("--vcd and --fst exclude each other")
    path = vcd or fst
    if path is None:
        if window is not None and not traced:
            raise typer.BadParameter(
                "--window needs --vcd, --fst or --trace, whose cycles it chooses"
            )
        return None
    option = "--vcd" if vcd is not None else "--fst"
    if device != "rtl":
        raise typer.BadParameter(f"{option} needs --device rtl: {device} has no signals")
    ending = option.replace("--", ".")
    if path.suffix != ending:
        raise typer.BadParameter(f"{option} needs a file that ends in {ending}, not {path}")

    from vdla.runtime.waves import DEFAULT_WINDOW, Waves, read_window

    begin, end = DEFAULT_WINDOW if window is None else read_window(window)
    return Waves(path, begin, end)


def note_empty(waves: Waves, run: Run) -> None:
    """Say so where the run ended before the window opened."""
    if not run.cycles or run.cycles <= waves.begin:
        note(f"{waves.path} holds no cycle: the run took {run.cycles or 0:,}")
