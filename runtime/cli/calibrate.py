"""``vdla calibrate``: the cycle model's memory, fitted to a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vdla.errors import InputError
from vdla.runtime.cli.options import (
    JsonOption,
    OwnConfigOption,
    TargetOption,
    read_config_of,
)
from vdla.runtime.cli.output import emit_json, note, progress_bar, show_table, write_file

if TYPE_CHECKING:
    from vdla.config import Config
    from vdla.module import Module
    from vdla.runtime.calibrate import Calibration, Counts

__all__ = ["calibrate"]

_BOARD_REPEATS = 9
"""Runs of each program where other work shares the memory."""


def calibrate(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="NET.vdla", help="A network to compare cycles of as well, before and after."
        ),
    ] = None,
    device: TargetOption = "pynq",
    config: OwnConfigOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.toml", help="Where to write the configuration."
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance", metavar="X", help="Largest error of a program that is fitted, of 1."
        ),
    ] = 0.03,
    rtl_memory: Annotated[
        str | None,
        typer.Option(
            "--rtl-memory",
            metavar="CYCLES,BYTES",
            help="Latency and bytes a cycle of the memory that rtl simulates, to try a fit on.",
        ),
    ] = None,
    measure: Annotated[
        Path | None,
        typer.Option(
            "--measure",
            metavar="FILE.json",
            help="Only write what the device counts: a board has no cycle model.",
        ),
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            "--counts", metavar="FILE.json", help="Fit to what --measure wrote, without a device."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit DRAM latency and bandwidth of the cycle model to the cycles that a device counts.

    On a board, measure; then fit on a host, where the cycle model is.
    """
    if measure is not None and (counts is not None or out is not None):
        raise typer.BadParameter("--measure writes counts alone: it excludes --counts and --output")
    if out is not None and out.suffix != ".toml":
        raise InputError(f"A configuration must be written to a .toml file, not to {out}.")
    settings = read_config_of(config, file, "" if counts is not None else device)

    from vdla.module import load
    from vdla.runtime.calibrate import Counts, explain

    network = None if file is None else load(file, settings)
    if counts is not None:
        counted = Counts.read(counts)
    else:
        counted = _measured(device, settings, rtl_memory, network)
    if measure is not None:
        write_file(measure, counted.to_json().encode())
        note(f"wrote {measure}; on a host: vdla calibrate --counts {measure.name} -o FILE.toml")
        if as_json:
            emit_json({"cycles": dict(counted.cycles), "network": counted.network})
        return
    found = explain(counted, settings, network=network, tolerance=tolerance)
    if out is not None:
        write_file(out, found.config.to_toml().encode())
    if as_json:
        emit_json(found.summary())
    else:
        _show(found)
    if out is not None:
        note(f"wrote {out}; name it with --config")


def _measured(
    device: str, config: Config, rtl_memory: str | None, network: Module | None
) -> Counts:
    from vdla.runtime.calibrate import measure
    from vdla.runtime.devices import HARDWARE, open_device

    opened = open_device(device, _machine(config, rtl_memory, device))
    try:
        with progress_bar("measuring") as progress:
            return measure(
                opened,
                config=config,
                network=network,
                repeats=_BOARD_REPEATS if device in HARDWARE else 1,
                progress=progress,
            )
    finally:
        opened.close()


def _machine(config: Config, memory: str | None, device: str) -> Config:
    """Return the configuration to open a device with: its memory is the simulated one."""
    if memory is None:
        return config
    if device != "rtl":
        raise InputError(f"--rtl-memory must go with --device rtl, not {device}.")
    latency, _, rate = memory.partition(",")
    try:
        return config.replace(
            name=config.name, dram_latency_cycles=int(latency), dram_bytes_per_cycle=float(rate)
        )
    except ValueError:
        raise InputError(
            f"--rtl-memory must be cycles and bytes a cycle, such as 47,5.3, not {memory!r}."
        ) from None


def _show(found: Calibration) -> None:
    rows = [
        (
            one.name,
            "fitted" if one.fitted else "held out",
            str(one.counted),
            str(one.before),
            f"{one.error_before:+.2%}",
            str(one.after),
            f"{one.error_after:+.2%}",
        )
        for one in found.timed
    ]
    columns = ("program", "part", "counted", "before", "error", "after", "error")
    show_table(columns, rows, text_columns=2)
    least = "at least " if found.at_least else ""
    typer.echo(
        f"\nlatency {found.config.dram_latency_cycles} cycles, {least}"
        f"{found.config.dram_bytes_per_cycle:.3f} bytes a cycle; largest error {found.error:.2%}"
    )
