"""``vdla run``: a compiled file on a device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from vdla.runtime.cli.inputs import given_inputs
from vdla.runtime.cli.kernels import emit_kernels, run_kernels
from vdla.runtime.cli.options import (
    DEFAULT_CONFIG,
    BindOption,
    CheckOption,
    CompiledForOption,
    CpuOption,
    EmitOption,
    FloatDtypeOption,
    ImageOption,
    InputOption,
    JsonOption,
    LabelsOption,
    MatricesOption,
    PinOption,
    RecordsOption,
    RunDeviceOption,
    Target,
    ThreadsOption,
    WinogradOption,
    kernel_options,
    read_bind,
    read_config,
)
from vdla.runtime.cli.output import emit_json, note, progress_bar
from vdla.runtime.cli.remote import run_on_board
from vdla.runtime.cli.report import show_run, summarize
from vdla.runtime.cli.streaming import read_labels, stream_images
from vdla.runtime.cli.traces import TraceOption, trace_network, trace_of
from vdla.runtime.cli.waves import FstOption, VcdOption, WindowOption, note_empty, waves_of
from vdla.runtime.devices import PROCESSOR

if TYPE_CHECKING:
    import numpy.typing as npt

    from vdla.runtime.network import Network
    from vdla.runtime.trace import Trace
    from vdla.runtime.waves import Waves

__all__ = ["Labelled", "execute", "run_network"]

DIFFERS = 1


class Labelled(NamedTuple):
    """Images of a network's input shape and dtype, and the class of each."""

    images: npt.NDArray[Any]
    labels: list[int]


def execute(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.vdla|MODEL",
            help="What vdla compile wrote, or with --target or --cpu what it takes.",
        ),
    ],
    image: ImageOption = None,
    images: Annotated[
        Path | None,
        typer.Option(
            "--images",
            metavar="FOLDER",
            help="Pictures, or .npy files; one is read while another runs.",
        ),
    ] = None,
    input_file: InputOption = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="NAME|FILE.toml",
            help="Refuse a file compiled for another configuration than this.",
        ),
    ] = None,
    device: RunDeviceOption = None,
    target: CompiledForOption = None,
    dtype: FloatDtypeOption = None,
    winograd: WinogradOption = 0,
    matrices: MatricesOption = False,
    cpu: CpuOption = None,
    bind: BindOption = None,
    records: RecordsOption = None,
    threads: ThreadsOption = None,
    pin: PinOption = False,
    check: CheckOption = False,
    labels: LabelsOption = None,
    as_json: JsonOption = False,
    vcd: VcdOption = None,
    fst: FstOption = None,
    window: WindowOption = None,
    trace: TraceOption = None,
    emitted: EmitOption = None,
) -> None:
    """Run a compiled network on a device; with --target or --cpu, compile it first."""
    if sum(given is not None for given in (image, images, input_file)) > 1:
        raise typer.BadParameter("--image, --images and --input exclude each other")
    if images is not None and (check or vcd or fst or trace):
        raise typer.BadParameter("--images goes with neither --check nor waves: use --image")
    kernels = kernel_options(dtype, winograd, matrices=matrices)
    if target is not None and target not in (Target.vdla, Target.cpu):
        others = {
            "--images": images,
            "--config": config,
            "--cpu": cpu,
            "--threads": threads,
            "--pin": pin,
            "--check": check,
            "--vcd": vcd,
            "--fst": fst,
            "--window": window,
            "--trace": trace,
        }
        if wrong := [name for name, value in others.items() if value]:
            raise typer.BadParameter(f"{', '.join(wrong)}: not with --target {target.value}")
        inputs = {"--image": image, "--input": input_file}
        if emitted is not None and (wrong := [name for name, value in inputs.items() if value]):
            raise typer.BadParameter(
                f"{', '.join(wrong)}: not with --emit-source, which runs nothing"
            )
        network = _network(file, target, cpu, bind, config, records, threads, device, kernels)
        if labels is not None:
            network = network.labelled(read_labels(labels))
        if emitted is not None:
            emit_kernels(network, target.value, emitted, as_json=as_json)
        else:
            run_kernels(network, target.value, device, image, input_file, as_json=as_json)
        return
    if emitted is not None:
        raise typer.BadParameter("--emit-source: only with --target opencl, cuda, ptx or metal")
    if kernels:
        raise typer.BadParameter(
            f"{', '.join(f'--{name}' for name in kernels)}: only with --target opencl, cuda, ptx "
            "or metal"
        )
    waves = waves_of(vcd, fst, window, device or "cycle", traced=trace is not None)
    traced = trace_of(trace, window, device or "cycle")
    host = (device or "").removeprefix("pynq@")
    remote = host != (device or "")
    if remote and (target or cpu) and not _is_compiled(file):
        raise typer.BadParameter("a board on the network takes a compiled file: vdla compile first")
    network = _network(file, target, cpu, bind, config, records, threads)
    if labels is not None:
        network = network.labelled(read_labels(labels))
    if remote:
        given = {"--image": image, "--images": images, "--input": input_file, "--labels": labels}
        options = ["--threads", str(threads)] if threads is not None else []
        options += ["--check"] * check + ["--pin"] * pin
        run_on_board(host, Path(file), given, options, as_json=as_json)
        return
    if target is Target.cpu:
        device = device or PROCESSOR
    if images is not None:
        place = device or network.usual_device
        stream_images(network, images, place, threads=threads, pin=pin, as_json=as_json)
        return
    run_network(
        network,
        image,
        input_file,
        device,
        check=check,
        as_json=as_json,
        waves=waves,
        trace=traced,
        threads=threads,
        pin=pin,
    )


def _is_compiled(file: str) -> bool:
    return file.lower().endswith(".vdla")


def _network(
    file: str,
    target: Target | None,
    cpu: str | None,
    bind: list[str] | None,
    config: str | None,
    records: Path | None,
    threads: int | None,
    gpu: str | None = None,
    kernels: Mapping[str, Any] = MappingProxyType({}),
) -> Network:
    """Return the network of a compiled file, or compile one."""
    from vdla.runtime import api

    if (target is None and cpu is None) or _is_compiled(file):
        if cpu is not None or bind or records or kernels:
            raise typer.BadParameter(
                "--cpu, --bind, --records, --dtype, --winograd and --matrices are for a network "
                "that is compiled here, not for a compiled file"
            )
        return api.load(file, config=None if config is None else read_config(config))
    with progress_bar("compiling") as progress:
        return api.compile(
            file,
            target=(target or Target.vdla).value,
            cpu=cpu,
            config=read_config(config or DEFAULT_CONFIG),
            bind=read_bind(bind),
            records=records,
            threads=threads or 1,
            device=gpu,
            progress=progress,
            **kernels,
        )


def run_network(
    network: Network,
    image: Path | None,
    input_file: Path | None,
    device: str | None,
    *,
    check: bool,
    as_json: bool,
    waves: Waves | None = None,
    shown: Labelled | None = None,
    trace: Trace | None = None,
    threads: int | None = None,
    pin: bool = False,
) -> None:
    """Run `network` on what the options give it, or on `shown`, and print the result.

    Leaves with exit code 1 where ``--check`` finds a difference.
    """
    inputs = given_inputs(network.inputs, image, input_file) if shown is None else shown.images
    with progress_bar("running") as progress:
        run = network.run(
            inputs,
            device=device,
            check=check,
            progress=progress,
            waves=waves,
            threads=threads,
            pin=pin,
        )
    summary = summarize(run, network.labels, None if shown is None else shown.labels)
    if as_json:
        emit_json(summary)
    else:
        show_run(summary)
    if not network.programs and device != PROCESSOR and network.gpu_target is None:
        note("nothing of this network runs on the accelerator; vdla import MODEL says why")
    if waves is not None:
        note_empty(waves, run)
    if trace is not None:
        trace_network(network, trace)
    if check and not run.bit_exact:
        raise typer.Exit(DIFFERS)
