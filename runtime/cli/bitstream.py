"""``vdla bitstream``: the overlay of a board, or the files that another machine builds it from."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from vdla.runtime.cli.options import JsonOption, read_config
from vdla.runtime.cli.output import emit_json, fail, note, progress_bar

__all__ = ["bitstream"]


class _Flow(str, Enum):
    """What makes the bitstream."""

    vivado = "vivado"
    openxc7 = "openxc7"


def bitstream(
    board: Annotated[
        str,
        typer.Option(
            "--board",
            metavar="NAME",
            help="pynq-z1, pynq-z2, ultra96v2, zcu104, kv260 or aup-zu3.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="The overlay's folder; bitstreams/NAME without."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="NAME|FILE.toml", help="Instead of the board's configuration."
        ),
    ] = None,
    clock: Annotated[
        float | None,
        typer.Option("--clock", metavar="MHZ", help="Instead of the configuration's clock."),
    ] = None,
    flow: Annotated[
        _Flow,
        typer.Option("--flow", help="vivado, or openxc7 (yosys, nextpnr) for Zynq-7000 boards."),
    ] = _Flow.vivado,
    script_only: Annotated[
        bool,
        typer.Option("--script-only", help="Write what another machine builds, and build nothing."),
    ] = False,
    collect: Annotated[
        bool,
        typer.Option("--collect", help="Take what that other machine built into an overlay."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build the bitstream of a board with its hand-off file, reports and manifest."""
    from vdla.boards import board as board_named
    from vdla.runtime.overlay.flows import FLOWS
    from vdla.runtime.overlay.job import Job
    from vdla.runtime.overlay.vivado_script import EXPECTED

    if script_only and collect:
        fail("--script-only and --collect exclude each other: first the one, then the other")
    chosen = board_named(board)
    settings = read_config(config or chosen.config)
    clock_mhz = settings.clock_mhz if clock is None else clock
    folder = output or Path("bitstreams") / chosen.name
    job = Job(chosen, settings, clock_mhz, folder)
    work = FLOWS[flow.value]
    if script_only:
        files = work.write(job)
        _say_files(files, work.command(job), as_json)
        return
    with progress_bar(chosen.name) as progress:
        manifest = work.collect(job) if collect else work.build(job, progress)
    if manifest.tool == "Vivado" and not manifest.tool_version.startswith(EXPECTED):
        note(
            f"the script is written for Vivado {EXPECTED}, and this was built with "
            f"{manifest.tool_version}"
        )
    report: dict[str, Any] = {
        "board": manifest.board,
        "config": manifest.config,
        "config_hash": manifest.config_hash,
        "clock_mhz": manifest.clock_mhz,
        "slack_ns": manifest.slack_ns,
        "tool": f"{manifest.tool} {manifest.tool_version}",
        "files": [str(folder / name) for name in (*manifest.files, "manifest.json")],
    }
    if as_json:
        emit_json(report)
        return
    for path in report["files"]:
        typer.echo(path)
    typer.echo(
        f"{manifest.board}, configuration {manifest.config}: {manifest.clock_mhz:g} MHz met, "
        f"{manifest.slack_ns:.3f} ns to spare"
    )


def _say_files(files: list[Path], command: str, as_json: bool) -> None:
    if as_json:
        emit_json({"files": [str(path) for path in files], "command": command})
        return
    for path in files:
        typer.echo(path)
    typer.echo(f"build with: {command}")
