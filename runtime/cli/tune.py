"""``vdla tune``: search for faster schedules of a network's operators."""

from __future__ import annotations

import time
from enum import Enum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.runtime.cli import INTERRUPTED
from vdla.runtime.cli.options import (
    DEFAULT_CONFIG,
    BindOption,
    ConfigOption,
    JsonOption,
    ModelArgument,
    PlaceOption,
    VthreadsOption,
    read_bind,
    read_config,
    read_place,
)
from vdla.runtime.cli.output import emit_json, note, progress_bar, show_table
from vdla.runtime.cli.tune_table import cost_text, live, rows_of, summary_of

if TYPE_CHECKING:
    from vdla.runtime.tune.run import Tuned

__all__ = ["tune"]


class Method(str, Enum):
    """What proposes candidates, as `vdla.runtime.tune.tuning.METHODS` has them."""

    ranking = "ranking"
    regression = "regression"
    genetic = "genetic"
    random = "random"
    grid = "grid"


def tune(
    model: ModelArgument,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="NAME",
            help="Where candidates are measured. cycle: the cycle model; rtl: the gateware, "
            "simulated; pynq: the board that this is; pynq@HOST: one on the network; cpu: machine "
            "code on this processor; opencl or cuda, or a part of its name behind it, opencl:NAME: "
            "kernels on a GPU.",
        ),
    ] = "cycle",
    config: ConfigOption = DEFAULT_CONFIG,
    bind: BindOption = None,
    place: PlaceOption = None,
    vthreads: VthreadsOption = 2,
    threads: Annotated[
        int, typer.Option("--threads", min=1, help="Of the network, on the device cpu.")
    ] = 1,
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="Candidates of each task, at most.")
    ] = 64,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0, help="No batch begins after that.")
    ] = None,
    method: Annotated[
        Method, typer.Option("--method", help="What proposes candidates.")
    ] = Method.ranking,
    records: Annotated[
        Path | None,
        typer.Option(
            "--records",
            metavar="FILE.jsonl",
            help="Where everything measured is kept; MODEL.tune.jsonl without.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from what the file of records holds.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            help="Processes of this machine; without, one a core, or one on a GPU.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler's, tcp://HOST:8786."),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", min=2, help="Candidates proposed at a time.")
    ] = 8,
    together: Annotated[
        int,
        typer.Option(
            "--together", min=1, help="Schedules of a task that are tried in the whole network."
        ),
    ] = 3,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Search for faster schedules, on real measurements; what is interrupted keeps all of them."""
    from vdla.runtime.tune import run
    from vdla.runtime.tune.log import Log

    file = Path(f"{Path(model).stem}.tune.jsonl") if records is None else records
    _tell_left(Log(file), resume=resume)
    settings = run.Settings(
        device=device,
        config=read_config(config),
        bind=read_bind(bind),
        place=read_place(place),
        vthreads=vthreads,
        threads=threads,
        method=method.value,
        trials=trials,
        minutes=minutes,
        batch=batch,
        together=together,
        workers=workers,
        scheduler=scheduler,
        seed=seed,
    )
    deadline = inf if minutes is None else time.monotonic() + 60 * minutes
    with live(trials, deadline) as show, progress_bar("tuning") as progress:
        result = run.tune(model, file, settings, resume=resume, told=show, progress=progress)
    if as_json:
        emit_json(_summary(result))
    else:
        _show(result)
    if result.search.interrupted:
        raise typer.Exit(INTERRUPTED)


def _tell_left(log: Any, *, resume: bool) -> None:
    """Say what of a file's lines is not gone on with."""
    read = log.read() if resume else None
    for sentence in [] if read is None else read.said(log.path):
        note(sentence)


def _summary(result: Tuned) -> dict[str, Any]:
    summary = summary_of(result.search)
    summary |= {"records": str(result.records), "known": result.known}
    if result.before is not None:
        summary |= {"before": result.before, "after": result.after, "gain": result.gain}
    if result.whole is not None:
        chosen = {key: dict(record.point) for key, record in result.whole.chosen.items()}
        summary |= {"networks_tried": result.whole.tried, "chosen": chosen}
    return summary


def _show(result: Tuned) -> None:
    columns, rows = rows_of(result.search)
    show_table(columns, rows, text_columns=1)
    summary = summary_of(result.search)
    rate = summary["trials"] / summary["seconds"] if summary["seconds"] else 0.0
    typer.echo(
        f"\n{summary['trials']:,} candidates in {summary['seconds']:.0f} s, {rate:.1f} a second"
    )
    for status, count in summary["failures"].items():
        typer.echo(f"{count:,} failed: {status}")
    if result.before is not None and result.after is not None:
        unit = " cycles" if result.whole is not None else ""
        checked = "; every layer equals the interpreter's" if result.whole is not None else ""
        typer.echo(
            f"the whole network: {cost_text(result.before)}{unit} before, "
            f"{cost_text(result.after)}{unit} now, {result.gain:.4f} times as fast{checked}"
        )
    if not result.records.exists():
        note("nothing was measured")
        return
    if result.search.interrupted:
        note("interrupted: --resume goes on from here")
    note(f"all measurements: {result.records}; take the schedules with --records {result.records}")
