"""``vdla tune``: search for faster schedules of a network's operators."""

from __future__ import annotations

import time
from contextlib import ExitStack
from enum import Enum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.errors import InputError, ProgramError
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
from vdla.runtime.cli.tune_table import live, rows_of, summary_of

if TYPE_CHECKING:
    from vdla.runtime.tune.together import Together, Whole
    from vdla.runtime.tune.tuning import Tuning

__all__ = ["tune"]

_INTERRUPTED = 130
_SECONDS, _WHOLE_SECONDS = 60.0, 600.0
"""Longest time of a candidate and of a whole network, building included."""


class Method(str, Enum):
    """What proposes candidates."""

    ranking = "ranking"
    regression = "regression"
    genetic = "genetic"
    random = "random"
    grid = "grid"


def tune(
    model: ModelArgument,
    device: Annotated[
        str,
        typer.Option("--device", metavar="NAME", help="cycle: the cycle model, exact."),
    ] = "cycle",
    config: ConfigOption = DEFAULT_CONFIG,
    bind: BindOption = None,
    place: PlaceOption = None,
    vthreads: VthreadsOption = 2,
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
        typer.Option("--workers", min=1, help="Processes of this machine; one a core without."),
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
    from vdla.processor import available_cores
    from vdla.runtime.tune.accelerator import cycles
    from vdla.runtime.tune.attempts import Attempts
    from vdla.runtime.tune.jobs import accelerator_jobs
    from vdla.runtime.tune.log import Log
    from vdla.runtime.tune.together import Whole
    from vdla.runtime.tune.tuning import tune as run

    if device != "cycle":
        raise InputError(f"--device must be cycle, not {device!r}.")
    log = Log(Path(f"{Path(model).stem}.tune.jsonl") if records is None else records)
    known = _known(log, resume=resume)
    settings = read_config(config)
    asked: dict[str, Any] = {
        "config": settings,
        "bind": read_bind(bind),
        "place": read_place(place),
        "vthreads": vthreads,
    }
    with progress_bar("compiling") as progress:
        jobs, graph = accelerator_jobs(model, progress=progress, **asked)
    whole = Whole(graph, settings, vthreads, asked["place"])
    workers = workers or available_cores()
    deadline = inf if minutes is None else time.monotonic() + 60 * minutes
    with ExitStack() as stack:
        attempts = stack.enter_context(Attempts(cycles, workers or available_cores(), _SECONDS))
        show = stack.enter_context(live(trials, deadline))
        done = run(
            jobs,
            attempts,
            log,
            method=method.value,
            trials=trials,
            batch=batch,
            deadline=deadline,
            seed=seed,
            told=show,
        )
    result = summary_of(done, log, known)
    if not done.interrupted:
        chosen = _choose(whole, done, workers, together, deadline)
        log.append(chosen.chosen.values())
        result |= {
            "cycles_before": chosen.before,
            "chosen": {key: dict(record.point) for key, record in chosen.chosen.items()},
            "networks_tried": chosen.tried,
        }
        with progress_bar("checking"):
            result["cycles"] = _check(whole, log.path)
    if as_json:
        emit_json(result)
    else:
        columns, rows = rows_of(done)
        show_table(columns, rows, text_columns=1)
        _tell(result)
    if done.interrupted:
        raise typer.Exit(_INTERRUPTED)


def _known(log: Any, *, resume: bool) -> int:
    """Return how many records there are to go on from."""
    if not log.path.exists():
        return 0
    read = log.read()
    if not resume and (read.records or read.foreign):
        raise InputError(
            f"Records are kept in a file of their own, and {log.path} holds "
            f"{len(read.records) + read.foreign:,} lines already: give --resume to go on from "
            "them, or another file with --records."
        )
    if read.foreign:
        note(f"{log.path}: {read.foreign:,} records of another version are left alone")
    if read.cut:
        note(f"{log.path}: the last record was cut off, and is measured again")
    return len(read.records)


def _choose(whole: Whole, done: Tuning, workers: int, most: int, deadline: float) -> Together:
    """Choose schedules by the cycles of the whole network, unless it was interrupted."""
    from vdla.runtime.tune.attempts import Attempts
    from vdla.runtime.tune.together import choose_together, whole_cycles

    with (
        Attempts(whole_cycles, workers, _WHOLE_SECONDS) as attempts,
        progress_bar("the whole network") as progress,
    ):
        return choose_together(
            whole, done.jobs, attempts, most=most, deadline=deadline, told=progress
        )


def _check(whole: Whole, records: Path) -> int:
    """Return the cycles of the tuned network, each layer compared with the interpreter."""
    from vdla.runtime import api
    from vdla.runtime.cli.inputs import random_input

    network = api.compile(
        whole.graph,
        config=whole.config,
        place=whole.place,
        vthreads=whole.vthreads,
        records=records,
        cache=False,
    )
    images = {
        name: random_input(tensor.shape, tensor.dtype) for name, tensor in network.inputs.items()
    }
    run = network.run(images, device="cycle", check=True)
    if not run.bit_exact:
        raise ProgramError(
            f"A tuned network must compute what the interpreter does, and {run.first_difference}: "
            f"leave {records} out, and report it"
        )
    return run.cycles or 0


def _tell(result: dict[str, Any]) -> None:
    rate = result["trials"] / result["seconds"] if result["seconds"] else 0.0
    typer.echo(
        f"\n{result['trials']:,} candidates in {result['seconds']:.0f} s, {rate:.1f} a second"
    )
    for status, count in result["failures"].items():
        typer.echo(f"{count:,} failed: {status}")
    if "cycles" in result:
        before, after = result["cycles_before"], result["cycles"]
        typer.echo(
            f"the whole network: {before:,.0f} cycles before, {after:,} now, "
            f"{100 * (before - after) / before:.2f} % less; every layer equals the interpreter's"
        )
    note(f"records: {result['records']}; take them with --records {result['records']}")
