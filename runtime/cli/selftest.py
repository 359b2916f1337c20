"""``vdla selftest``: a device from its registers to a whole network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vdla.runtime.cli.options import (
    JsonOption,
    OwnConfigOption,
    TargetOption,
    read_config_of,
)
from vdla.runtime.cli.output import emit_json, note, progress_bar, show_table

if TYPE_CHECKING:
    from vdla.config import Config
    from vdla.module import Module
    from vdla.runtime.selftest import Report

__all__ = ["selftest"]

FAILED = 1
_BUILT_IN = "digits"


def selftest(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="NET.vdla",
            help="The network to run last; by default digits, where the compiler is installed.",
        ),
    ] = None,
    device: TargetOption = "cycle",
    config: OwnConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test a device from its registers to a whole network, beside the functional and cycle models.

    Leaves with exit code 1 where something is different.
    """
    settings = read_config_of(config, file, device)

    from vdla.runtime.devices import HARDWARE, open_device
    from vdla.runtime.selftest import selftest

    network = _network(file, settings)
    opened = open_device(device, settings)
    try:
        with progress_bar("testing") as progress:
            report = selftest(
                opened,
                name=device,
                network=network,
                exact=device not in HARDWARE,
                progress=progress,
            )
    finally:
        opened.close()
    if as_json:
        emit_json(report.summary())
    else:
        _show(report)
    for text in report.notes:
        note(text)
    if not report.passed:
        raise typer.Exit(FAILED)


def _network(file: Path | None, config: Config) -> Module | None:
    if file is not None:
        from vdla.module import load

        return load(file, config)
    from vdla.runtime import api

    try:
        return api.compile(_BUILT_IN, config=config).module
    except ModuleNotFoundError:
        note("no network is tested: name a .vdla file that vdla compile has written")
        return None


def _show(report: Report) -> None:
    rows = [
        (
            outcome.grade,
            outcome.name,
            outcome.status,
            "" if outcome.cycles is None else str(outcome.cycles),
            "" if outcome.ratio is None else f"{outcome.ratio:.3f}",
        )
        for outcome in report.outcomes
    ]
    show_table(("grade", "check", "result", "cycles", "of model"), rows, text_columns=3)
    typer.echo()
    for outcome in report.failures:
        typer.echo(f"{outcome.grade}, {outcome.name}: {outcome.detail}")
    skipped = {outcome.detail for outcome in report.outcomes if outcome.status == "skipped"}
    for detail in sorted(skipped):
        typer.echo(f"skipped: {detail}")
    failed, total = len(report.failures), len(report.outcomes)
    verdict = f"{failed} of {total} checks failed" if failed else f"{total} checks, none failed"
    typer.echo(f"{report.device}, {report.config}: {verdict}")
