"""``vdla bench cpu``: machine code for the processor against the libraries of today."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from vdla.processor import available_cores
from vdla.runtime.cli.options import JsonOption
from vdla.runtime.cli.output import emit_json, note, progress_bar, show_table

__all__ = ["cpu"]


def cpu(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PART]...", help="convs, networks, int8, threads, effects, compile."
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option("--threads", min=1, help="Threads of each side, but of part threads.")
    ] = 1,
    repeats: Annotated[
        int, typer.Option("--repeats", min=2, help="Samples of each side, taken in turn.")
    ] = 15,
    as_json: JsonOption = False,
) -> None:
    """Measure compiled code for the processor against ONNX Runtime, and OpenVINO if it is there.

    Both sides are sampled in turn in one process, and the median of the ratios is given with its
    quartiles, above 1 where this code is the faster. A convolution's time is the difference of
    models of 6 and of 2 of it, so that neither side is charged for a session's entry or for
    layouts at the borders: one behind the other where the shape stays, else beside each other,
    with their results added. With one thread, times are of the processor; else on the clock.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))

    from vdla.runtime.cli.cpu_rows import PARTS, Settings, rows_of
    from vdla.runtime.cli.doctor import processor_level

    with progress_bar("cpu") as progress:
        rows = rows_of(parts or list(PARTS), Settings(threads, repeats), progress)
    level, _ = processor_level()
    result = {
        "level": level,
        "cores": available_cores(),
        "threads": threads,
        "repeats": repeats,
        "peers": _versions(),
        "rows": rows,
    }
    if as_json:
        emit_json(result)
    else:
        _show(result)


def _versions() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    from vdla.runtime.cli.peers import PEERS

    found: dict[str, str | None] = {}
    for peer in PEERS:
        try:
            found[peer] = version(peer)
        except PackageNotFoundError:
            found[peer] = None
    return found


def _show(result: Mapping[str, Any]) -> None:
    rows: Sequence[Mapping[str, Any]] = result["rows"]
    there = ", ".join(f"{name} {v}" for name, v in result["peers"].items() if v)
    typer.echo(
        f"{result['level']}, {result['threads']} of {result['cores']} cores; {there or 'no peer'}\n"
    )
    measured = [row for row in rows if "ratio" in row]
    if measured:
        columns = ["measured", "", "against", "ms", "peer's ms", "ratio", "quartiles"]
        columns += ["GFLOP/s", "peer's", "apart", "clock"]
        show_table(columns, [_cells(row) for row in measured], text_columns=3)
    for row in rows:
        if "arena_bytes" in row:
            arena, larger = (row[key] / 1e6 for key in ("arena_bytes", "peer_arena_bytes"))
            typer.echo(
                f"\n{row['name']}: {row['what']}; arena {larger:.1f} MB, with it {arena:.1f}"
            )
    for row in rows:
        if "cpu_seconds" in row:
            typer.echo(f"\n{row['name']} compiled cold in {row['cpu_seconds']:.1f} CPU seconds")
    for row in rows:
        if "peer_ratio" in row:
            typer.echo(
                f"\n{row['name']}: {row['peer']} gains {row['peer_ratio']:.2f}; by processor time "
                f"this code gains {row['cpu_ratio']:.2f}, which a busy machine changes less"
            )
    for row in rows:
        if "why" in row:
            against = f" against {row['peer']}" if row["peer"] else ""
            typer.echo(f"\nleft out: {row['part']}, {row['name']}{against}: {row['why']}")
    if any(row.get("busy") for row in rows):
        note("the clock and the processor's time differ: something else ran on this machine")


def _cells(row: Mapping[str, Any]) -> list[str]:
    def number(key: str, form: str) -> str:
        return format(row[key], form) if key in row else ""

    wall = ""
    if row.get("busy"):
        wall = f"; wall {row['wall_milliseconds']:.2f}, {row['peer_wall_milliseconds']:.2f}"
    return [
        row["name"],
        "" if "arena_bytes" in row else row.get("what", ""),
        row["peer"],
        number("milliseconds", ",.3f"),
        number("peer_milliseconds", ",.3f"),
        number("ratio", ".2f"),
        f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
        number("gflops", ".0f"),
        number("peer_gflops", ".0f"),
        number("apart", ".1e"),
        row["clock"] + wall,
    ]
