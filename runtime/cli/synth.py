"""``vdla synth``: what a configuration takes of its board's FPGA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from vdla.runtime.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_config
from vdla.runtime.cli.output import emit_json, show_table, write_file

__all__ = ["synth"]

_COLUMNS = ("lut", "ff", "dsp", "bram36")


def synth(
    config: ConfigOption = DEFAULT_CONFIG,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.json", help="Keep the report as JSON, too."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Synthesize the accelerator with yosys and count LUTs, flip-flops, DSP slices, block RAM."""
    from vdla.runtime.synthesis import synthesize

    report = synthesize(read_config(config)).to_dict()
    if output is not None:
        write_file(output, (json.dumps(report, indent=2) + "\n").encode())
    if as_json:
        emit_json(report)
        return
    total, available = report["total"], report["available"]
    rows = [
        [unit, *(f"{used[column]:,g}" for column in _COLUMNS)]
        for unit, used in report["modules"].items()
    ]
    rows.append(["total", *(f"{total[column]:,g}" for column in _COLUMNS)])
    rows.append([report["part"], *(f"{available[column]:,g}" for column in _COLUMNS)])
    rows.append(["used", *(f"{100 * total[c] / available[c]:.1f} %" for c in _COLUMNS)])
    show_table(["unit", "LUT", "FF", "DSP", "RAMB36"], rows, text_columns=1)
