"""``vdla bench gpu``: kernels beside PyTorch with cuDNN on a GPU, and what they read anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.errors import DeviceError
from vdla.runtime.cli.options import FloatDtype
from vdla.runtime.cli.output import note, progress_bar, show_table, write_file

if TYPE_CHECKING:
    from vdla.runtime.gpu import GpuDevice

__all__ = ["gpu"]


class Driven(str, Enum):
    """What drives the GPU."""

    cuda = "cuda"
    opencl = "opencl"


def gpu(
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help="convs, products, networks.")
    ] = None,
    device: Annotated[
        Driven, typer.Option("--device", help="What drives the GPU; cuda runs CUDA C.")
    ] = Driven.cuda,
    repeats: Annotated[
        int, typer.Option("--repeats", min=2, help="Samples of each side, taken in turn.")
    ] = 20,
    dtype: Annotated[
        FloatDtype | None, typer.Option("--dtype", help="Only float32 or float16, not both.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the result there as JSON.")
    ] = None,
) -> None:
    """Measure kernels against PyTorch on the same GPU, outputs compared first.

    In float32, and in float16, with tensor cores. Both sides are recorded, run in turn, and timed
    by events: medians with quartiles, and the median of the ratios, above 1 where these kernels are
    the faster. So are kernels without fusion, virtual threads or tensor cores, and by Winograd's
    algorithm, where those differ.

    Whatever the device, it is counted how many elements kernels read of memory: with operators
    fused and each alone, and as many as it would be if no threads read for each other, into shared
    memory. So are the passes of warps over the banks of shared memory, and those among them that
    are there because threads want different words of one bank: as it is, and with each thread's
    elements in one piece, without virtual threads; and in float16 the products of tensor cores. On
    a processor nothing is timed.
    """
    import json

    from vdla.runtime.cli.gpu_rows import DTYPES, PARTS, Settings, rows_of
    from vdla.runtime.cli.torch_peer import torch_versions

    found, why = _opened(device.value)
    with progress_bar("gpu") as progress:
        dtypes = DTYPES if dtype is None else (dtype.value,)
        rows = rows_of(parts or list(PARTS), found, Settings(repeats), progress, dtypes)
    result = {
        "device": None if found is None else found.name,
        "why": why,
        "repeats": repeats,
        **torch_versions(),
        "rows": rows,
    }
    if file is not None:
        write_file(file, (json.dumps(result, indent=2) + "\n").encode())
    _show(result)


def _opened(target: str) -> tuple[GpuDevice | None, str | None]:
    from vdla.runtime.gpu import open_gpu

    try:
        return open_gpu(target), None
    except DeviceError as error:
        return None, str(error)


def _show(result: Mapping[str, Any]) -> None:
    rows: Sequence[Mapping[str, Any]] = result["rows"]
    _table(
        ["counted", "", "kernels", "alone", "M read", "alone", "unshared", "saved"],
        [_counted(row) for row in rows if "fused" in row.get("loads", {})],
        text_columns=2,
    )
    _table(
        ["in shared memory", "M passes", "conflicts", "one piece", "conflicts", "saved"],
        [_passes(row) for row in rows if "shared" in row],
    )
    _table(
        ["in float16", "kernels", "by tensor cores", "M products", "with ends of tiles"],
        [_by_warps(row) for row in rows if "matrices" in row.get("loads", {})],
    )
    timed = [row for row in rows if "ratio" in row]
    if timed:
        typer.echo(f"{result['device']}, PyTorch {result['torch']}, cuDNN {result['cudnn']}\n")
    columns = ["measured", "", "", "ms", "PyTorch's ms", "ratio", "quartiles", "TFLOP/s", "apart"]
    _table(columns, [_measured(row) for row in timed], text_columns=3)
    effects = [(row, *one) for row in timed for one in row["effects"].items()]
    columns = ["takes as long", "", "times", "quartiles"]
    _table(columns, [_effect(*one) for one in effects], text_columns=2)
    reasons = dict.fromkeys(row["why"] for row in rows if "why" in row)
    for reason in reasons:
        names = ", ".join(dict.fromkeys(r["name"] for r in rows if r.get("why") == reason))
        note(f"not measured: {names}: {reason}")
    if result["why"]:
        note(result["why"])


def _table(columns: list[str], cells: list[list[str]], text_columns: int = 1) -> None:
    """Show a table that has rows."""
    if cells:
        show_table(columns, cells, text_columns=text_columns)
        typer.echo("")


def _counted(row: Mapping[str, Any]) -> list[str]:
    fused, apart = row["loads"]["fused"], row["loads"]["apart"]
    return [
        row["name"],
        row["what"],
        f"{fused['calls']}",
        f"{apart['calls']}",
        f"{fused['memory'] / 1e6:,.2f}",
        f"{apart['memory'] / 1e6:,.2f}",
        f"{fused['unshared'] / 1e6:,.2f}",
        f"{fused['unshared'] / fused['memory']:.1f}x",
    ]


def _passes(row: Mapping[str, Any]) -> list[str]:
    pieces, one = row["shared"]["pieces"], row["shared"]["one_piece"]
    millions = [n / 1e6 for side in (pieces, one) for n in (side["wavefronts"], side["conflicts"])]
    saved = one["wavefronts"] / max(1, pieces["wavefronts"])
    return [row["name"], *(f"{n:,.2f}" for n in millions), f"{saved:.2f}x"]


def _by_warps(row: Mapping[str, Any]) -> list[str]:
    loads = row["loads"]["matrices"]
    millions = [f"{number / 1e6:,.2f}" for number in (row["macs"], loads["warp_products"])]
    return [row["name"], str(loads["calls"]), str(row["warp_calls"]), *millions]


def _effect(row: Mapping[str, Any], what: str, spread: Sequence[float]) -> list[str]:
    times, low, high = spread
    return [f"{row['name']} {row['dtype']}", what, f"{times:.2f}", f"{low:.2f} to {high:.2f}"]


def _measured(row: Mapping[str, Any]) -> list[str]:
    return [
        row["name"],
        row["what"],
        row["dtype"],
        f"{row['milliseconds']:.4f}",
        f"{row['peer_milliseconds']:.4f}",
        f"{row['ratio']:.2f}",
        f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
        f"{2 * row['macs'] / row['milliseconds'] / 1e9:.2f}",
        f"{row['apart']:.0e}",
    ]
