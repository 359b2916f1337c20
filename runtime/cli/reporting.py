"""``vdla report``: where cycles go, as a page; ``vdla compare``: two results side by side."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.errors import InputError, LoweringError
from vdla.runtime.cli.options import (
    BUILT_IN,
    DEFAULT_CONFIG,
    BindOption,
    CacheOption,
    ConfigOption,
    JsonOption,
    PlaceOption,
    VthreadsOption,
    read_bind,
    read_config,
    read_place,
)
from vdla.runtime.cli.output import emit_json, note, progress_bar, show_table, write_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from vdla.config import Config
    from vdla.runtime.network import Network
    from vdla.runtime.report import Comparison, Result

__all__ = ["compare", "report"]


def report(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help=f"A .tflite, .onnx or .vdla file, or built in: {', '.join(BUILT_IN)}.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.html", help="The file to write.")
    ],
    bind: BindOption = None,
    place: PlaceOption = None,
    config: ConfigOption = DEFAULT_CONFIG,
    vthreads: VthreadsOption = 2,
    cache: CacheOption = True,
    as_json: JsonOption = False,
) -> None:
    """Write a page on where a network's cycles go and what would help: one file, no network."""
    if output.suffix not in (".html", ".htm"):
        raise typer.BadParameter(f"-o needs a file that ends in .html, not {output}")
    settings = read_config(config)

    import matplotlib as mpl

    mpl.use("Agg")  # no figure is shown: no display is needed
    from vdla.runtime import api
    from vdla.runtime.report import Report, render
    from vdla.runtime.trace import Timeline

    without = None
    if model.endswith(".vdla"):
        timeline = Timeline.of(api.load(model))
    else:
        compiled = partial(_compiled, model, settings, bind=bind, place=place, cache=cache)
        timeline = Timeline.of(compiled(vthreads))
        if vthreads > 1:
            try:
                without = Timeline.of(compiled(1))
            except LoweringError as error:
                note(f"no figures of one virtual thread, which needs larger buffers: {error}")
    found = Report(timeline, without)
    page = render(found).encode()
    write_file(output, page)
    summary = found.summary()
    if as_json:
        emit_json({"file": str(output), "bytes": len(page), **summary})
        return
    best = found.changes[0]
    kind = "saves" if best.exact else "would save at most"
    typer.echo(
        f"{output}: {len(page):,} bytes; {timeline.cycles:,} cycles on {timeline.config.name}"
    )
    typer.echo(f"most would come of {best.words}: it {kind} {best.saved:,} cycles")


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="With --model: a configuration, by name or .toml file. Else a .vdla file, or what "
            "--json of simulate or run printed.",
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The same, to set against it.")],
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="The network that configurations run."),
    ] = None,
    bind: BindOption = None,
    place: PlaceOption = None,
    vthreads: VthreadsOption = 2,
    cache: CacheOption = True,
    as_json: JsonOption = False,
) -> None:
    """Set two configurations, programs or saved results side by side, layer by layer."""

    def compiled(config: str) -> Network:
        assert model is not None
        settings = read_config(config)
        return _compiled(model, settings, vthreads, bind=bind, place=place, cache=cache)

    results = [_result(one, model, compiled) for one in (a, b)]

    from vdla.runtime.report import compare as side_by_side

    found = side_by_side(*results)
    if as_json:
        emit_json(found.summary())
    else:
        _show(found)


def _compiled(
    model: str,
    config: Config,
    vthreads: int,
    *,
    bind: list[str] | None,
    place: list[str] | None,
    cache: bool,
) -> Network:
    from vdla.runtime import api

    with progress_bar(f"compiling for {config.name}") as progress:
        return api.compile(
            model,
            config=config,
            bind=read_bind(bind),
            place=read_place(place),
            vthreads=vthreads,
            cache=cache,
            progress=progress,
        )


def _result(text: str, model: str | None, compiled: Callable[[str], Network]) -> Result:
    from vdla.runtime.report import of_json, of_timeline
    from vdla.runtime.trace import Timeline

    path = Path(text)
    if path.suffix == ".vdla":
        from vdla.runtime import api

        return of_timeline(Timeline.of(api.load(path)), path.name)
    if path.suffix == ".json" and _is_result(path):
        return of_json(path)
    if model is None:
        raise InputError(
            f"What is compared must be a .vdla file or a saved --json result, or a configuration "
            f"with --model, not {text} alone: name the network with --model."
        )
    return of_timeline(Timeline.of(compiled(text)), text)


def _is_result(path: Path) -> bool:
    """Return whether a file is a saved result; VTA's configurations end in .json too."""
    try:
        return "layers" in json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, TypeError):
        return True  # whose reader says what is wrong with it


def _show(found: Comparison) -> None:
    summary = found.summary()
    rows = [_row(layer["name"], layer) for layer in summary["layers"]]
    total: dict[str, Any] = {"ratio": summary["ratio"]}
    for side in "ab":
        total |= {f"{k}_{side}": summary[side][k] for k in ("cycles", "bytes", "mac_utilization")}
    rows.append(_row("all", total))
    typer.echo(f"A: {_title(found.a)}\nB: {_title(found.b)}\n")
    columns = ["layer", "cycles A", "cycles B", "B / A", "MAC use A", "MAC use B"]
    show_table([*columns, "bytes A", "bytes B"], rows, text_columns=1)
    times = [summary[side]["milliseconds"] for side in "ab"]
    if None not in times:
        typer.echo(
            f"\nA takes {times[0]:,.2f} ms at {found.a.clock_mhz:g} MHz, B {times[1]:,.2f} ms at "
            f"{found.b.clock_mhz:g} MHz: {summary['time_ratio']:.3f} times as long"
        )


def _title(result: Result) -> str:
    same = result.title.lower().replace("_", "-") == result.config
    return result.title if same else f"{result.title} ({result.config})"


def _row(name: str, row: dict[str, Any]) -> list[str]:
    ratio = row["ratio"]
    return [
        name,
        *(_number(row[f"cycles_{side}"]) for side in "ab"),
        "-" if ratio is None else f"{ratio:.3f}",
        *(_percent(row[f"mac_utilization_{side}"]) for side in "ab"),
        *(_number(row[f"bytes_{side}"]) for side in "ab"),
    ]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return "-" if not value else f"{100 * value:.1f} %"
