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
    ConfigOption,
    JsonOption,
    ModelArgument,
    Rank,
    RankOption,
    VthreadsOption,
    read_bind,
    read_config,
)
from vdla.runtime.cli.output import emit_json, progress_bar

__all__ = ["build"]


def build(
    model: ModelArgument,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.vdla", help="The file to write.")
    ],
    bind: BindOption = None,
    config: ConfigOption = DEFAULT_CONFIG,
    vthreads: VthreadsOption = 2,
    rank: RankOption = Rank.estimate,
    cache: CacheOption = True,
    as_json: JsonOption = False,
) -> None:
    """Compile a network into one file: programs, weights and memory plan."""
    settings = read_config(config)

    from vdla.runtime import api

    start = time.perf_counter()
    with progress_bar("compiling") as progress:
        network = api.compile(
            model,
            config=settings,
            bind=read_bind(bind),
            vthreads=vthreads,
            rank=rank.value,
            cache=cache,
            progress=progress,
        )
    network.save(output)
    seconds = time.perf_counter() - start
    if as_json:
        emit_json(
            {
                "file": str(output),
                "bytes": output.stat().st_size,
                "seconds": seconds,
                "config": settings.name,
                "config_hash": f"{settings.hash:016x}",
            }
        )
    else:
        typer.echo(
            f"{output}: {output.stat().st_size:,} bytes for {settings.name}, in {seconds:.1f} s"
        )
