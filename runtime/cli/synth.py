"""``vdla synth``: what a configuration takes of its board's FPGA, and a relative timing check."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from vdla.runtime.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_config
from vdla.runtime.cli.output import emit_json, progress_bar, show_table, write_file

__all__ = ["synth"]

_COLUMNS = ("lut", "ff", "dsp", "bram36")


class _Fabric(str, Enum):
    """Where a reduced array can be placed and routed."""

    ecp5 = "ecp5"


def synth(
    config: ConfigOption = DEFAULT_CONFIG,
    pnr: Annotated[
        _Fabric | None,
        typer.Option(
            "--pnr",
            help="Instead, place and route a 1x4x4 array on an ECP5 and print its clock: a "
            "relative check, no prediction for a board's part.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.json", help="Keep the report as JSON, too."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Synthesize the accelerator with yosys and count LUTs, flip-flops, DSP slices, block RAM."""
    settings = read_config(config)

    from vdla.runtime.area.kept import keep_report
    from vdla.runtime.synthesis import place, synthesize

    report: dict[str, Any]
    with progress_bar("synthesis") as progress:
        if pnr is None:
            counted = synthesize(settings, progress)
            keep_report(counted)  # `vdla area` then knows it
            report, show = counted.to_dict(), _show_resources
        else:
            report, show = place(settings, progress).to_dict(), _show_timing
    if output is not None:
        write_file(output, (json.dumps(report, indent=2) + "\n").encode())
    if as_json:
        emit_json(report)
    else:
        show(report)


def _show_resources(report: dict[str, Any]) -> None:
    total, available = report["total"], report["available"]
    rows = [
        [unit, *(f"{used[column]:,g}" for column in _COLUMNS)]
        for unit, used in report["modules"].items()
    ]
    rows.append(["total", *(f"{total[column]:,g}" for column in _COLUMNS)])
    rows.append([report["part"], *(f"{available[column]:,g}" for column in _COLUMNS)])
    rows.append(["used", *(f"{100 * total[c] / available[c]:.1f} %" for c in _COLUMNS)])
    show_table(["unit", "LUT", "FF", "DSP", "RAMB36"], rows, text_columns=1)


def _show_timing(report: dict[str, Any]) -> None:
    path, device = report["critical_path"], report["device"]
    for clock, mhz in report["fmax_mhz"].items():
        typer.echo(f"Fmax of {clock}: {mhz:.1f} MHz on {device}, array reduced to 1x4x4")
    typer.echo(
        f"longest path: {path['logic_ns']:.2f} ns of logic in {path['levels']} cells, "
        f"{path['routing_ns']:.2f} ns of routing"
    )
    for name in ("start", "end"):
        typer.echo(f"  {name}: {path[name]['unit']} ({path[name]['cell']})")
    typer.echo(f"  along nets of: {', '.join(path['units'])}")
    typer.echo(report["note"])
