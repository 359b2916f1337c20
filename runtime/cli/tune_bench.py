"""``vdla bench tune``: methods of search against the best schedule that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.errors import InputError
from vdla.runtime.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_config
from vdla.runtime.cli.output import emit_json, progress_bar, show_table
from vdla.runtime.cli.tune_table import cost_text

if TYPE_CHECKING:
    from vdla.compiler.tune.guided import Known
    from vdla.config import Config
    from vdla.runtime.tune.attempt import Measure
    from vdla.runtime.tune.race import Race, Table
    from vdla.runtime.tune.search import Template

__all__ = ["tune"]

_SECONDS = 60.0


class Device(str, Enum):
    """Where candidates are measured."""

    cycle = "cycle"
    cpu = "cpu"


@dataclass(frozen=True)
class _Kind:
    """What is compared on a device."""

    measure: Measure
    templates: Callable[[Config, list[str] | None], Iterator[tuple[str, Template]]]
    share: float
    """By which a search may miss the best."""
    reached: str


def tune(
    shapes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SHAPE]...",
            help="C2 to C11, as vdla bench convs has them; on the device cpu C1 to C12, as vdla "
            "bench cpu has them, by default C2, C6, C9 and C12.",
        ),
    ] = None,
    device: Annotated[
        Device, typer.Option("--device", help="The cycle model, or this processor, one thread.")
    ] = Device.cycle,
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

    On the cycle model, a search is to come within 1 % of the best; schedules that a lower bound
    keeps further from it are not measured. On a processor it is to reach 95 % of the best's speed.
    The tables take an hour or two for all ten shapes, minutes for one on a processor; they are kept
    in --records.
    """
    from vdla.processor import available_cores
    from vdla.runtime.tune.attempts import Attempts
    from vdla.runtime.tune.log import Log
    from vdla.runtime.tune.race import Table

    settings, kind = read_config(config), _kind(device)
    with ExitStack() as stack:
        attempts = stack.enter_context(
            Attempts(kind.measure, workers or available_cores(), _SECONDS)
        )
        tables = {
            name: Table(template, attempts, Log(records / f"{name}.jsonl"))
            for name, template in kind.templates(settings, shapes)
        }
        for name, table in tables.items():
            with progress_bar(name, remaining=True) as progress:
                table.complete(kind.share, lambda done, total: progress(done, total, ""))
        rows = []
        found: dict[str, list[Race]] = {}
        with progress_bar("searching") as progress:
            for n, (name, table) in enumerate(tables.items()):
                progress(n, len(tables), name)
                found[name], row = _compared(table, seeds, trials, kind.share)
                rows.append({"shape": name, **row})
            if transfer:
                for row in rows:
                    name = row["shape"]
                    progress(rows.index(row), len(rows), f"{name} with the others' records")
                    known = _others(name, tables[name], found)
                    again = _races(tables[name], "ranking", seeds, trials, known)
                    row["transfer"] = _figures(again, tables[name].best, kind.share)
    if as_json:
        emit_json({"config": settings.name, "trials": trials, "seeds": seeds, "rows": rows})
    else:
        _show(rows, trials, kind)


def _kind(device: Device) -> _Kind:
    if device is Device.cycle:
        from vdla.runtime.tune.accelerator import cycles

        return _Kind(cycles, _accelerated, 0.01, "within 1 %")
    from vdla.runtime.tune.processor import seconds

    return _Kind(seconds, _compiled, 1 / 0.95 - 1, "at 95 % of the best's speed")


def _accelerated(config: Config, shapes: list[str] | None) -> Iterator[tuple[str, Template]]:
    from vdla.compiler.network.prepare import prepare
    from vdla.compiler.ops import ConvTemplate
    from vdla.compiler.zoo import resnet18
    from vdla.runtime.cli.convolutions import SHAPES
    from vdla.runtime.tune.remembered import Remembered

    _check(shapes, SHAPES)
    graph = prepare(resnet18(), config).graph
    for name in shapes or SHAPES:
        yield name, Remembered(ConvTemplate.of(graph, graph.node(SHAPES[name][0]), config))


def _compiled(config: Config, shapes: list[str] | None) -> Iterator[tuple[str, Template]]:
    from vdla.compiler.cpu.template import templates_of
    from vdla.compiler.onnx import import_onnx
    from vdla.compiler.targets.cpu import host_target
    from vdla.runtime.cli.chains import CHAINED, chain
    from vdla.runtime.tune.remembered import Remembered

    _check(shapes, CHAINED)
    for name in shapes or ("C2", "C6", "C9", "C12"):
        ((template, _),) = templates_of(import_onnx(chain(CHAINED[name], 1)), host_target())
        yield name, Remembered(template)


def _check(shapes: list[str] | None, known: Iterable[str]) -> None:
    unknown = sorted(set(shapes or ()) - set(known))
    if unknown:
        raise InputError(
            f"A shape must be one of {', '.join(known)}, not {', '.join(unknown)}: name these."
        )


def _compared(
    table: Table, seeds: int, trials: int, share: float
) -> tuple[list[Race], dict[str, Any]]:
    row: dict[str, Any] = {
        "points": len(table.template.space),
        "best": table.best,
        "within": table.within(share),
        "methods": {},
    }
    kept: list[Race] = []
    for method in ("ranking", "regression", "genetic", "random"):
        races = _races(table, method, seeds, trials)
        row["methods"][method] = _figures(races, table.best, share)
        kept = kept or races
    row["measured"] = table.measured
    return kept, row


def _races(
    table: Table, method: str, seeds: int, trials: int, known: Known | None = None
) -> list[Race]:
    from vdla.runtime.tune.race import race

    return [race(table, method, trials=trials, seed=n, known=known) for n in range(seeds)]


def _others(name: str, table: Table, found: Mapping[str, list[Race]]) -> Known | None:
    """Return the records of one search of each other shape."""
    from vdla.runtime.tune.tuning import known_of

    records = [record for other in found if other != name for record in found[other][0].records]
    return known_of(records, table.template)


def _figures(races: list[Race], best: float, share: float) -> dict[str, Any]:
    """Return what the searches reached, and after how many trials they were within the share."""
    from vdla.runtime.tune.race import first_within

    reached = [min(one.costs) / best for one in races]
    first = [first_within(one.costs, best, share) for one in races]
    good = [trial for trial in first if trial is not None]
    never = len(first) - len(good)
    return {
        "reached": median(reached),
        "worst": max(reached),
        "trials": median(sorted(good) + [float("inf")] * never) if never * 2 < len(first) else None,
        "most": max(good) if not never else None,
        "never": never,
    }


def _show(rows: list[dict[str, Any]], trials: int, kind: _Kind) -> None:
    columns = ["shape", "points", "measured", "best", "close"]
    methods = list(rows[0]["methods"])
    columns += methods + (["with the others'"] if "transfer" in rows[0] else [])
    cells = []
    for row in rows:
        figures = [row["methods"][name] for name in methods]
        figures += [row["transfer"]] if "transfer" in row else []
        cells.append(
            [
                row["shape"],
                *(f"{row[name]:,}" for name in ("points", "measured")),
                cost_text(row["best"]),
                f"{row['within']:,}",
                *map(_cell, figures),
            ]
        )
    show_table(columns, cells, text_columns=1)
    typer.echo(
        f"\nclose: points {kind.reached}; of each method: what the worst search has after {trials} "
        "trials over the best there is, and the trials to be close: median, most"
    )


def _cell(figures: Mapping[str, Any]) -> str:
    trials, most = figures["trials"], figures["most"]
    if trials is None:
        return f"{figures['worst']:.3f}; {figures['never']} never"
    never = f"{figures['never']} never" if most is None else f"{most}"
    return f"{figures['worst']:.3f}; {trials:g}, {never}"
