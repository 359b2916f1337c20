"""``vdla compile``: a network's file into a module file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from vdla.runtime.cli.options import (
    DEFAULT_CONFIG,
    BindOption,
    CacheOption,
    CompiledForOption,
    ConfigOption,
    CpuOption,
    FloatDtypeOption,
    GpuOption,
    JsonOption,
    LabelsOption,
    MatricesOption,
    ModelArgument,
    PlaceOption,
    Rank,
    RankOption,
    RecordsOption,
    Target,
    VthreadsOption,
    WinogradOption,
    kernel_options,
    read_bind,
    read_config,
    read_place,
)
from vdla.runtime.cli.output import emit_json, progress_bar
from vdla.runtime.cli.streaming import read_labels

__all__ = ["build"]


def build(
    model: ModelArgument,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.vdla", help="The file to write.")
    ],
    target: CompiledForOption = Target.vdla,
    cpu: CpuOption = None,
    gpu: GpuOption = None,
    dtype: FloatDtypeOption = None,
    winograd: WinogradOption = 0,
    matrices: MatricesOption = False,
    bind: BindOption = None,
    place: PlaceOption = None,
    config: ConfigOption = DEFAULT_CONFIG,
    vthreads: VthreadsOption = 2,
    rank: RankOption = Rank.estimate,
    cache: CacheOption = True,
    records: RecordsOption = None,
    labels: LabelsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compile a network into one file: programs, weights and memory plan."""
    settings = read_config(config)

    from vdla.runtime import api

    start = time.perf_counter()
    with progress_bar("compiling") as progress:
        network = api.compile(
            model,
            target=(target or Target.vdla).value,
            cpu=cpu,
            gpu=None if gpu is None else gpu.value,
            config=settings,
            bind=read_bind(bind),
            place=read_place(place),
            vthreads=vthreads,
            rank=rank.value,
            cache=cache,
            records=records,
            progress=progress,
            **kernel_options(dtype, winograd, matrices=matrices),
        )
    if labels is not None:
        network = network.labelled(read_labels(labels))
    network.save(output)
    seconds = time.perf_counter() - start
    level = network.cpu_level
    if as_json:
        emit_json(
            {
                "file": str(output),
                "bytes": output.stat().st_size,
                "seconds": seconds,
                "config": settings.name,
                "config_hash": f"{settings.hash:016x}",
                "cpu": level,
                "gpu": network.gpu_target,
            }
        )
    else:
        alone = not network.programs and (level or network.gpu_target)
        machines = [] if alone else [settings.name]
        machines += [name for name in (level, network.gpu_target) if name is not None]
        typer.echo(
            f"{output}: {output.stat().st_size:,} bytes for {' and '.join(machines)}, "
            f"in {seconds:.1f} s"
        )
