"""``vdla simulate``: a network's file, compiled and run in one step."""

from __future__ import annotations

import typer

from vdla.runtime.cli.execute import Labelled, run_network
from vdla.runtime.cli.options import (
    DEFAULT_CONFIG,
    BindOption,
    CacheOption,
    CheckOption,
    ConfigOption,
    Device,
    DeviceOption,
    GpuOption,
    ImageOption,
    InputOption,
    JsonOption,
    ModelArgument,
    PlaceOption,
    Rank,
    RankOption,
    RecordsOption,
    VthreadsOption,
    read_bind,
    read_config,
    read_place,
)
from vdla.runtime.cli.output import progress_bar
from vdla.runtime.cli.traces import TraceOption, trace_of
from vdla.runtime.cli.waves import FstOption, VcdOption, WindowOption, waves_of

__all__ = ["simulate"]


def simulate(
    model: ModelArgument,
    image: ImageOption = None,
    input_file: InputOption = None,
    bind: BindOption = None,
    place: PlaceOption = None,
    gpu: GpuOption = None,
    config: ConfigOption = DEFAULT_CONFIG,
    device: DeviceOption = Device.cycle,
    vthreads: VthreadsOption = 2,
    rank: RankOption = Rank.estimate,
    records: RecordsOption = None,
    cache: CacheOption = True,
    check: CheckOption = False,
    as_json: JsonOption = False,
    vcd: VcdOption = None,
    fst: FstOption = None,
    window: WindowOption = None,
    trace: TraceOption = None,
) -> None:
    """Compile a network, run it on a simulator, and show where its cycles go."""
    if image is not None and input_file is not None:
        raise typer.BadParameter("--image and --input exclude each other")
    waves = waves_of(vcd, fst, window, device.value, traced=trace is not None)
    traced = trace_of(trace, window, device.value)
    settings = read_config(config)

    from vdla.runtime import api

    with progress_bar("compiling") as progress:
        network = api.compile(
            model,
            config=settings,
            bind=read_bind(bind),
            place=read_place(place),
            gpu=None if gpu is None else gpu.value,
            vthreads=vthreads,
            rank=rank.value,
            records=records,
            cache=cache,
            progress=progress,
        )
    shown = _labelled(model) if image is None and input_file is None else None
    run_network(
        network,
        image,
        input_file,
        device.value,
        check=check,
        as_json=as_json,
        waves=waves,
        shown=shown,
        trace=traced,
    )


def _labelled(model: str) -> Labelled | None:
    """Return images of which it is known what they show, for a network that comes with such."""
    if model != "digits":
        return None
    import numpy as np

    from vdla.compiler.zoo import digits_held_out

    images, labels = digits_held_out()
    _, first = np.unique(labels, return_index=True)  # one image of each digit
    return Labelled(images[first], labels[first].tolist())
