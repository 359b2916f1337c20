"""``vdla bench paper``: the TVM paper's accelerator results and this one's, side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from vdla.runtime.cli.options import JsonOption
from vdla.runtime.cli.output import emit_json, progress_bar, show_table

__all__ = ["paper"]


def paper(as_json: JsonOption = False) -> None:
    """Set the TVM paper's accelerator results beside this one's, on its design and the default.

    Use of the core with and without latency hiding, layer by layer; what offloading removes, with
    the processor as a stated model; and VTA's cycle model with an equal memory.
    """
    from vdla.runtime.cli.paper import measure_paper

    with progress_bar("paper") as progress:
        result = measure_paper(progress)
    if as_json:
        emit_json(result)
    else:
        _show_paper(result)


def _show_paper(result: dict[str, Any]) -> None:
    for machine in result["machines"]:
        rows = [
            [
                layer["name"],
                layer["shape"],
                *(f"{100 * layer['use'][threads]:.1f} %" for threads in ("1", "2")),
                f"{1e3 * layer['cpu_seconds']:.1f} ms",
                f"{1e3 * layer['seconds']:.2f} ms",
                f"{100 * layer['removed']:.1f} %",
            ]
            for layer in machine["layers"]
        ]
        columns = ["layer", "convolution", "use, 1 thread", "use, 2 threads", "cpu (model)"]
        typer.echo(f"{machine['config']}, {machine['peak_gops']:g} GOPS at its peak")
        show_table([*columns, machine["config"], "removed"], rows, text_columns=2)
        typer.echo()
    given, (first, default) = result["paper"], result["machines"]

    def row(what: str, paper: str, figure: Callable[[dict[str, Any]], str]) -> list[str]:
        return [what, paper, figure(first), figure(default)]

    rows = [
        row(
            f"use of the core at its peak, {threads} virtual thread{'s' * (threads == '2')}",
            f"{100 * given['peak_use'][threads]:.0f} %",
            lambda m, n=threads: f"{100 * m['peak_use'][n]:.1f} %",  # type: ignore[misc]
        )
        for threads in ("1", "2")
    ]
    rows += [
        row(
            f"use over all convolutions, {threads} virtual thread{'s' * (threads == '2')}",
            "",
            lambda m, n=threads: f"{100 * m['use'][n]:.1f} %",  # type: ignore[misc]
        )
        for threads in ("1", "2")
    ]
    rows += [
        row(
            "offloaded convolutions against the cpu (model)",
            f"{given['speedup']} x",
            lambda m: f"{m['speedup']:.1f} x",
        ),
        row("all on the cpu (model)", "", lambda m: f"{m['cpu_seconds']:.2f} s"),
        row(
            "C2 to C11 offloaded: time, removed",
            "",
            lambda m: f"{m['offloaded_seconds']:.3f} s, {100 * m['offloaded_removed']:.1f} %",
        ),
        row(
            "everything offloaded: time, removed",
            "",
            lambda m: f"{m['whole_seconds']:.3f} s, {100 * m['whole_removed']:.1f} %",
        ),
    ]
    names = [f"{machine['config']}, here" for machine in result["machines"]]
    show_table(["ResNet-18", "the paper", *names], rows, text_columns=1)
    vta, cpu = result["vta"], result["cpu"]
    typer.echo(
        f"\nVTA's cycle model, {vta['contract']}: {vta['cycles']:,} cycles; the same here: "
        f"{vta['ours']:,}; a product in every cycle would take {vta['ideal']:,}"
    )
    typer.echo(
        f"the cpu is a model, {cpu['macs_per_second'] / 1e9:.2f} G multiply-accumulates a second: "
        f"{cpu['model']}"
    )
