"""``vdla area``: what a configuration takes of an FPGA, without synthesizing it."""

from __future__ import annotations

from typing import Any

import typer

from vdla.runtime.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_config
from vdla.runtime.cli.output import emit_json, show_table

__all__ = ["area"]

_NAMES = {"lut": "LUT", "ff": "FF", "dsp": "DSP", "bram36": "RAMB36"}


def area(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Estimate LUTs and flip-flops, count DSP slices and block RAM, and say which boards fit.

    Where the configuration was synthesized, its LUTs and flip-flops are yosys's.
    """
    settings = read_config(config)

    from vdla.runtime.area import area as estimate
    from vdla.runtime.area import boards_for

    result: dict[str, Any] = estimate(settings).to_dict()
    result["boards"] = [room.to_dict() for room in boards_for(settings)]
    if as_json:
        emit_json(result)
        return
    rows = [
        [unit, f"{used['lut']:,}", f"{used['ff']:,}", "", ""]
        for unit, used in result["modules"].items()
    ]
    rows.append(["total", *(f"{result['total'][name]:,g}" for name in _NAMES)])
    show_table(["unit", *_NAMES.values()], rows, text_columns=1)
    typer.echo(f"\n{_source(result)}\n")
    rows = [
        [
            room["board"],
            room["part"],
            "fits" if room["fits"] else "does not fit",
            *(f"{100 * room['shares'][name]:.0f} %" for name in _NAMES),
        ]
        for room in result["boards"]
    ]
    show_table(["board", "part", "", *_NAMES.values()], rows, text_columns=3)


def _source(result: dict[str, Any]) -> str:
    exact = "DSP slices and block RAM follow from the gateware's structure"
    if "model_error" not in result:
        return f"LUTs and flip-flops: counted by yosys ({result['family']}). {exact}."
    error = result["model_error"]
    off = (
        f"{_NAMES[name]} {100 * error[name]['median']:.1f} % in the median, "
        f"{100 * error[name]['worst']:.1f} % at worst"
        for name in ("lut", "ff")
    )
    said = (
        f"LUTs and flip-flops: a model ({result['family']}), off by {'; '.join(off)}, for each of "
        f"{error['samples']} synthesized configurations from all others. {exact}."
    )
    ends = [f"{name} of {low:,} to {high:,}" for name, (low, high) in error["beyond"].items()]
    if not ends:
        return said
    return f"{said} Those have {', '.join(ends)}: beyond, it may be off by more."
