"""What a run looks like on a terminal: a table of its layers, totals, and the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from vdla.runtime.cli.output import fits, show_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from vdla.runtime.run import Run

__all__ = ["class_words", "show_classes", "show_run", "summarize", "top_classes"]

TOP = 5
MAX_IMAGES_SHOWN = 10


def top_classes(
    scores: npt.NDArray[Any], names: Sequence[str] = (), count: int = TOP
) -> list[list[dict[str, Any]]]:
    """Return, image by image, the classes of the highest scores, the first of equals first.

    An output with more than one dimension above 1 is an image of its own, and has no classes.

    Parameters
    ----------
    scores : numpy.ndarray
        ``(n, ...)``; whatever follows the first axis is one row of classes.
    names : sequence of str
        What each class is called, where that is known.
    count : int
        How many classes of each image.

    Returns
    -------
    list of list of dict
        For each image, ``{"class": index, "score": score}``, and with names ``"label"``, best
        first; none of images.
    """
    if sum(size > 1 for size in scores.shape[1:]) > 1:
        return [[] for _ in scores]
    rows = scores.reshape(scores.shape[0], -1)
    order = (-rows.astype("f8")).argsort(axis=1, kind="stable")[:, :count]
    return [
        [
            {"class": int(index), "score": row[index].item()}
            | ({"label": names[index]} if names else {})
            for index in best
        ]
        for row, best in zip(rows, order, strict=True)
    ]


def summarize(
    run: Run, names: Sequence[str] = (), labels: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return what a run gave, as JSON takes it.

    Parameters
    ----------
    run : Run
    names : sequence of str
        What each class is called, where that is known.
    labels : sequence of int, optional
        The true class of each image, where it is known.
    """
    summary = run.summary()
    summary["classes"] = top_classes(list(run.outputs.values())[-1], names)
    if labels is not None:
        summary["labels"] = list(labels)
    if run.first_difference is not None:
        summary["first_difference"] = run.first_difference
    return summary


def show_run(summary: Mapping[str, Any]) -> None:
    """Print what `summarize` makes of a run: a table of its layers, totals, classes."""
    _show_layers(summary["layers"])
    typer.echo()
    _show_totals(summary)
    if "first_difference" in summary:
        typer.echo(f"first difference: {summary['first_difference']}")
    show_classes(summary["classes"], summary.get("labels"))


def class_words(best: Sequence[Mapping[str, Any]]) -> str:
    """Return an image's best classes with their scores in a line, each by its first name."""
    return (
        ", ".join(
            f"{str(one.get('label', one['class'])).split(',')[0]} ({one['score']})" for one in best
        )
        or "no classes"
    )


def _show_layers(layers: Sequence[Mapping[str, Any]]) -> None:
    """Print what each layer did and waited for: side by side where the terminal has room."""
    causes = list(dict.fromkeys(cause for layer in layers for cause in layer["waiting"] or {}))
    columns = ["layer", "operator", "on", "cycles", "MAC use", "bytes moved"]
    work = [
        [
            str(layer["name"]),
            str(layer["op"]),
            f"in {layer['fused_into']}" if layer["fused_into"] else str(layer["device"]),
            _number(layer["cycles"]),
            _percent(layer["mac_utilization"]),
            _number(layer["dram_bytes"]),
        ]
        for layer in layers
    ]
    waits = [f"wait {cause}" for cause in causes]
    waiting = [[_number((layer["waiting"] or {}).get(c)) for c in causes] for layer in layers]
    together = [a + b for a, b in zip(work, waiting, strict=True)]
    if fits([*columns, *waits], together):
        show_table([*columns, *waits], together, text_columns=3)
        return
    show_table(columns, work, text_columns=3)
    typer.echo()
    named = [[row[0], *waits] for row, waits in zip(work, waiting, strict=True)]
    show_table(["waiting for", *causes], named, text_columns=1)


def _show_totals(summary: Mapping[str, Any]) -> None:
    devices = {layer["device"] for layer in summary["layers"]}
    if "vdla" not in devices:
        places = {"cpu": "the processor", "gpu": "the GPU, copies included"}
        where = " and ".join(word for device, word in places.items() if device in devices)
        typer.echo(f"{1e3 * summary['processor_seconds']:,.2f} ms on {where}")
    elif summary["cycles"] is not None:
        typer.echo(
            f"{summary['cycles']:,} cycles on {summary['config']}, "
            f"{summary['cycles'] / summary['clock_mhz'] / 1e3:,.2f} ms at "
            f"{summary['clock_mhz']:g} MHz; "
            f"{_number(summary['mac_cycles_ideal'])} would do at full MAC utilization "
            f"({_percent(summary['mac_utilization'])})"
        )
    if summary["sim_seconds"]:
        rate = summary["sim_cycles_per_second"]
        speed = f", {rate / 1e6:.1f} million cycles a second" if rate else ""
        typer.echo(f"simulated in {summary['sim_seconds']:.2f} s{speed}")
    if summary.get("bit_exact") is not None:
        typer.echo(
            "every layer equals the integer interpreter"
            if summary["bit_exact"]
            else "NOT equal to the integer interpreter"
        )


def show_classes(
    classes: Sequence[Sequence[Mapping[str, Any]]], labels: Sequence[int] | None
) -> None:
    """Print the best classes of each image, as `top_classes` finds them."""
    if not any(classes):
        return
    for index, best in enumerate(classes[:MAX_IMAGES_SHOWN]):
        words = class_words(best)
        image = f" of image {index}" if len(classes) > 1 else ""
        truth = "" if labels is None else f"; truly {labels[index]}"
        typer.echo(f"classes{image} (score): {words}{truth}")
    if len(classes) > MAX_IMAGES_SHOWN:
        typer.echo(f"and {len(classes) - MAX_IMAGES_SHOWN} images more; --json has them all")
    if labels is not None:
        right = sum(best[0]["class"] == true for best, true in zip(classes, labels, strict=True))
        typer.echo(f"{right} of {len(labels)} images are classified rightly")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    """Return a share of a layer's MACs; a layer without any has none to show."""
    return "-" if not value else f"{100 * value:.1f} %"
