"""``vdla bench tune``: methods of search against the best schedule that there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.errors import InputError
from vdla.runtime.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_config
from vdla.runtime.cli.output import emit_json, progress_bar, show_table

if TYPE_CHECKING:
    from vdla.compiler.tune.guided import Known
    from vdla.config import Config
    from vdla.runtime.tune.race import Race, Table
    from vdla.runtime.tune.search import Template

__all__ = ["tune"]

_SHARE = 0.01
_SECONDS = 60.0


def tune(
    shapes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SHAPE]...", help="C2 to C11, as vdla bench convs has them."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Searches of each method.")] = 10,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Candidates of a search.")] = 64,
    records: Annotated[
        Path,
        typer.Option("--records", metavar="DIR", help="Where the tables are kept, and go on from."),
    ] = Path("tables"),
    transfer: Annotated[
        bool, typer.Option("--transfer", help="Search each with records of the others, too.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes of this machine; one a core without."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure every schedule of ResNet-18's convolutions that may be the best, then search them.

    Costs are cycles of the cycle model. Schedules that a lower bound keeps more than 1 % from the
    best are not measured: an hour or two for all ten shapes, kept in --records.
    """
    from vdla.processor import available_cores
    from vdla.runtime.tune.accelerator import cycles
    from vdla.runtime.tune.attempts import Attempts
    from vdla.runtime.tune.log import Log
    from vdla.runtime.tune.race import Table

    settings = read_config(config)
    with ExitStack() as stack:
        attempts = stack.enter_context(Attempts(cycles, workers or available_cores(), _SECONDS))
        tables = {
            name: Table(template, attempts, Log(records / f"{name}.jsonl"))
            for name, template in _templates(settings, shapes)
        }
        for name, table in tables.items():
            with progress_bar(name, remaining=True) as progress:
                table.complete(_SHARE, lambda done, total: progress(done, total, ""))
        rows = []
        found: dict[str, list[Race]] = {}
        with progress_bar("searching") as progress:
            for n, (name, table) in enumerate(tables.items()):
                progress(n, len(tables), name)
                found[name], row = _compared(table, seeds, trials)
                rows.append({"shape": name, **row})
            if transfer:
                for row in rows:
                    name = row["shape"]
                    progress(rows.index(row), len(rows), f"{name} with the others' records")
                    row["transfer"] = _transferred(name, tables[name], found, seeds, trials)
    if as_json:
        emit_json({"config": settings.name, "trials": trials, "seeds": seeds, "rows": rows})
    else:
        _show(rows, trials)


def _templates(config: Config, shapes: list[str] | None) -> Iterator[tuple[str, Template]]:
    from vdla.compiler.network.prepare import prepare
    from vdla.compiler.ops import ConvTemplate
    from vdla.compiler.zoo import resnet18
    from vdla.runtime.cli.convolutions import SHAPES

    unknown = sorted(set(shapes or ()) - set(SHAPES))
    if unknown:
        raise InputError(
            f"A shape must be one of {', '.join(SHAPES)}, not {', '.join(unknown)}: name these."
        )
    graph = prepare(resnet18(), config).graph
    for name in shapes or SHAPES:
        yield name, ConvTemplate.of(graph, graph.node(SHAPES[name][0]), config)


def _compared(table: Table, seeds: int, trials: int) -> tuple[list[Race], dict[str, Any]]:
    from vdla.runtime.tune.race import race

    row: dict[str, Any] = {
        "points": len(table.template.space),
        "best": table.best,
        "within": table.within(_SHARE),
        "methods": {},
    }
    kept: list[Race] = []
    for method in ("ranking", "regression", "genetic", "random"):
        races = [race(table, method, trials=trials, seed=seed) for seed in range(seeds)]
        row["methods"][method] = _figures(races, table.best)
        kept = kept or races
    row["measured"] = table.measured
    return kept, row


def _transferred(
    name: str, table: Table, found: Mapping[str, list[Race]], seeds: int, trials: int
) -> dict[str, Any]:
    from vdla.runtime.tune.race import race

    known = _others(name, table, found)
    races = [race(table, "ranking", trials=trials, seed=seed, known=known) for seed in range(seeds)]
    return _figures(races, table.best)


def _others(name: str, table: Table, found: Mapping[str, list[Race]]) -> Known | None:
    """Return the records of one search of each other shape."""
    from vdla.runtime.tune.tuning import known_of

    records = [record for other in found if other != name for record in found[other][0].records]
    return known_of(records, table.template)


def _figures(races: list[Race], best: float) -> dict[str, Any]:
    """Return what the searches reached, and after how many trials they were within the share."""
    from vdla.runtime.tune.race import first_within

    reached = [min(one.costs) / best for one in races]
    first = [first_within(one.costs, best, _SHARE) for one in races]
    good = [trial for trial in first if trial is not None]
    never = len(first) - len(good)
    return {
        "reached": median(reached),
        "worst": max(reached),
        "trials": median(sorted(good) + [float("inf")] * never) if never * 2 < len(first) else None,
        "most": max(good) if not never else None,
        "never": never,
    }


def _show(rows: list[dict[str, Any]], trials: int) -> None:
    columns = ["shape", "points", "measured", "best", "within 1 %"]
    methods = list(rows[0]["methods"])
    columns += methods + (["with the others'"] if "transfer" in rows[0] else [])
    cells = []
    for row in rows:
        figures = [row["methods"][name] for name in methods]
        figures += [row["transfer"]] if "transfer" in row else []
        cells.append(
            [
                row["shape"],
                *(f"{row[name]:,.0f}" for name in ("points", "measured", "best", "within")),
                *map(_cell, figures),
            ]
        )
    show_table(columns, cells, text_columns=1)
    typer.echo(
        f"\nof each method: what the worst search reaches over the best there is after {trials} "
        "trials; the trials to be within 1 % (median, most), - where that many never were"
    )


def _cell(figures: Mapping[str, Any]) -> str:
    trials, most = figures["trials"], figures["most"]
    if trials is None:
        return f"{figures['worst']:.3f}; {figures['never']} never"
    never = f"{figures['never']} never" if most is None else f"{most}"
    return f"{figures['worst']:.3f}; {trials:g}, {never}"
