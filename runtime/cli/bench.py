"""``vdla bench``: the figures that the documentation quotes, taken anew."""

from __future__ import annotations

import os
import resource
import statistics
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.errors import InputError
from vdla.runtime.cli.cpu import cpu
from vdla.runtime.cli.gpu import gpu
from vdla.runtime.cli.options import (
    DEFAULT_CONFIG,
    CheckOption,
    ConfigOption,
    JsonOption,
    ModelArgument,
    VthreadsOption,
    read_config,
)
from vdla.runtime.cli.output import emit_json, progress_bar, show_table
from vdla.runtime.cli.paper_table import paper
from vdla.runtime.cli.tune_bench import tune

if TYPE_CHECKING:
    from vdla.runtime.network import Network

__all__ = ["app"]

app = typer.Typer(help="Measure the machine and the simulator.", no_args_is_help=True)

app.command("paper")(paper)
app.command("cpu")(cpu)
app.command("gpu")(gpu)
app.command("tune")(tune)

DIFFERS = 1
THREAD_SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@app.command("convs")
def convs(
    config: ConfigOption = DEFAULT_CONFIG,
    shapes: Annotated[
        str, typer.Option("--set", help="resnet18: ten convolutions; mobilenet: nine depthwise.")
    ] = "resnet18",
    check: CheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run convolutions of a network, each alone, with one and with two virtual threads."""
    settings = read_config(config)

    from vdla.runtime.cli.convolutions import SETS, measure

    if shapes not in SETS:
        raise InputError(f"A set must be one of {', '.join(SETS)}, not {shapes!r}.")
    with progress_bar("convolutions") as progress:
        result = measure(settings, shapes=shapes, check=check, progress=progress)
    if as_json:
        emit_json(result)
    else:
        _show_convs(result)
    if result.get("bit_exact") is False:
        raise typer.Exit(DIFFERS)


def _limit(layer: dict[str, Any]) -> str:
    """Return which of a layer's bounds is the highest."""
    return max(("compute", "load", "store"), key=layer["bounds"].__getitem__)


def _show_convs(result: dict[str, Any]) -> None:
    rows = [
        [
            layer["name"],
            layer["shape"],
            f"{layer['occurrences']}",
            f"{layer['bounds']['products']:,}",
            f"{layer['bounds'][_limit(layer)]:,} {_limit(layer)}",
            *(f"{layer['cycles'][threads]:,}" for threads in ("1", "2")),
            *(
                f"{100 * layer['bounds']['products'] / layer['cycles'][threads]:.1f} %"
                for threads in ("1", "2")
            ),
            f"{layer['cycles']['1'] / layer['cycles']['2']:.2f}",
        ]
        for layer in result["layers"]
    ]
    columns = [
        "layer",
        "convolution",
        "times",
        "products",
        "bound",
        "1 thread",
        "2 threads",
        "use, 1",
        "use, 2",
    ]
    show_table([*columns, "speed-up"], rows, text_columns=2)
    use = result["product_share"]
    typer.echo(
        f"\nover all, weighted by occurrence: a product in {100 * use['1']:.1f} % of the cycles "
        f"with one thread, {100 * use['2']:.1f} % with two, on {result['config']}"
    )
    if "bit_exact" in result:
        typer.echo("equal to the interpreter" if result["bit_exact"] else "NOT equal")


@app.command("networks")
def networks(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Files, or names of built-in networks."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    check: CheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run whole networks on the cycle model: cycles, use of the core, bytes, time to compile."""
    settings = read_config(config)

    from vdla.runtime.cli.networks import NETWORKS, measure_networks

    with progress_bar("networks") as progress:
        result = measure_networks(models or NETWORKS, settings, check=check, progress=progress)
    if as_json:
        emit_json(result)
    else:
        _show_networks(result["networks"])
    if not all(network.get("bit_exact", True) for network in result["networks"]):
        raise typer.Exit(DIFFERS)


def _show_networks(found: list[dict[str, Any]]) -> None:
    rows = [
        [
            network["name"],
            f"{network['macs'] / 1e6:,.0f} M",
            f"{network['cycles']:,}",
            f"{network['milliseconds']:.1f} ms",
            f"{100 * (network['mac_utilization'] or 0):.1f} %",
            f"{network['dram_bytes'] / 1e6:.1f} MB",
            f"{network['host_layers']}",
            f"{network['compile_cpu_seconds']:.1f} s",
        ]
        for network in found
    ]
    columns = ["network", "MACs", "cycles", "time", "MAC use", "bytes moved", "layers on cpu"]
    show_table([*columns, "compiled in"], rows, text_columns=1)
    if "bit_exact" in found[0]:
        for network in found:
            equal = "equal to" if network["bit_exact"] else "NOT equal to"
            typer.echo(f"{network['name']}: every layer {equal} the integer interpreter")


@app.command("topologies")
def topologies(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Some of those that the onnx package ships."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Quantize and run well-known topologies with drawn weights, against ONNX Runtime.

    Leaves with exit code 1 where a layer fed ONNX Runtime's own inputs is more than a step from
    its output, or a layer on the cycle model differs from the integer interpreter.
    """
    settings = read_config(config)

    from vdla.runtime.cli.light import TOPOLOGIES
    from vdla.runtime.cli.topologies import measure_topologies

    with progress_bar("topologies") as progress:
        result = measure_topologies(names or TOPOLOGIES, settings, progress=progress)
    if as_json:
        emit_json(result)
    else:
        _show_topologies(result["topologies"])
    if not all(row["bit_exact"] and row["largest_step"] <= 1 for row in result["topologies"]):
        raise typer.Exit(DIFFERS)


def _show_topologies(found: list[dict[str, Any]]) -> None:
    rows = [
        [
            row["name"],
            f"{row['largest_step']}",
            f"{100 * row['equal_layers']:.0f} % of {row['layers']}",
            f"{100 * row['equal_outputs']:.1f} %",
            f"{100 * row['equal_scores']:.1f} %",
            f"{100 * row['equal_scores_peer']:.1f} %",
            "same" if row["same_argmax"] else "OTHER",
            f"{sum(row['vdla_layers'].values())}",
            f"{sum(row['cpu_layers'].values())}",
            f"{row['cycles']:,}",
            f"{row['compile_cpu_seconds']:.1f} s",
        ]
        for row in found
    ]
    columns = ["topology", "steps apart", "layers equal", "outputs equal", "scores equal"]
    columns += ["its own", "argmax", "layers on vdla", "on cpu", "cycles", "compiled in"]
    show_table(columns, rows, text_columns=1)
    typer.echo(
        "\nagainst ONNX Runtime without its optimizations; its own: with them against without\n"
    )
    for row in found:
        equal = "equal to" if row["bit_exact"] else "NOT equal to"
        listed = ", ".join(f"{count} {op}" for op, count in sorted(row["cpu_layers"].items()))
        typer.echo(f"{row['name']}: {equal} the integer interpreter; on the cpu: {listed}")


@app.command("passes")
def passes(
    model: ModelArgument = "resnet18",
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show what each pass of the compiler is worth: with all of them, and without each."""
    settings = read_config(config)

    from vdla.runtime.cli.passes import measure_passes

    with progress_bar("passes") as progress:
        result = measure_passes(model, settings, progress=progress)
    if as_json:
        emit_json(result)
        return
    whole = result["variants"][0]["cycles"]
    rows = [
        [
            variant["without"] or "(all passes)",
            f"{variant['cycles']:,}",
            _change(variant, whole),
            *(
                f"{variant[key]:,}"
                for key in ("dram_bytes", "arena_bytes", "host_bytes", "host_layers")
            ),
        ]
        for variant in result["variants"]
    ]
    columns = ["without", "cycles", "", "bytes moved", "bytes of memory"]
    columns += ["bytes by the host", "layers on it"]
    show_table(columns, rows, text_columns=1)
    typer.echo()
    for variant in result["variants"][1:]:
        typer.echo(f"{variant['without']}: {variant['what']}")


def _change(variant: dict[str, Any], whole: int) -> str:
    if variant["without"] is None or not whole:
        return ""
    return f"{100 * variant['cycles'] / whole - 100:+.1f} %"


@app.command("traffic")
def traffic(
    model: ModelArgument = "resnet18",
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Set the bytes that each layer moves against the least: each weight and activation once."""
    settings = read_config(config)

    from vdla.runtime.cli.passes import measure_traffic

    with progress_bar("traffic") as progress:
        result = measure_traffic(model, settings, progress=progress)
    if as_json:
        emit_json(result)
        return
    rows = [
        [layer["name"], layer["op"], *_moved(layer)]
        for layer in (*result["layers"], {"name": "all", "op": "", **result})
    ]
    show_table(["layer", "operator", "bytes moved", "least", "ratio"], rows, text_columns=2)


def _moved(figures: dict[str, Any]) -> tuple[str, str, str]:
    moved, least = figures["dram_bytes"], figures["dram_bytes_least"]
    return f"{moved:,}", f"{least:,}", f"{moved / least:.2f}" if least else "-"


@app.command("sim")
def sim(
    model: Annotated[str, typer.Option("--model", help="What to simulate.")] = "resnet18",
    config: ConfigOption = DEFAULT_CONFIG,
    vthreads: VthreadsOption = 2,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs of each simulator.")] = 3,
    rtl: Annotated[bool, typer.Option("--rtl", help="Measure the gateware as well.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the cycle model's speed, values included, against the functional model.

    CPU time of the whole process tree on one thread. One run of each goes before, so that
    compiled code is loaded and the gateware built; then they alternate, and medians are given.
    """
    settings = read_config(config)
    os.environ.update(dict.fromkeys(THREAD_SETTINGS, "1"))  # before numpy starts its threads

    from vdla.runtime import api
    from vdla.runtime.inputs import random_input

    start = _cpu_seconds()
    with progress_bar("compiling") as progress:
        network = api.compile(
            model, config=settings, vthreads=vthreads, cache=False, progress=progress
        )
    compile_seconds = _cpu_seconds() - start
    image = random_input(network.input_shape, network.input_dtype)
    seconds: dict[str, list[float]] = {"cycle": [], "functional": []}
    if rtl:
        seconds["rtl"] = []
    cycles = 0
    with progress_bar("simulating") as progress:
        for repeat in range(repeats + 1):
            for device, taken in seconds.items():
                progress(repeat, repeats + 1, device)
                spent, run_cycles = _timed(network, image, device)
                cycles = run_cycles or cycles
                if repeat:  # the first run of each warms up
                    taken.append(spent)
    result = _summary(seconds, cycles)
    result |= {
        "compile_cpu_seconds": compile_seconds,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "model": model,
        "config": settings.name,
        "config_hash": f"{settings.hash:016x}",
    }
    if as_json:
        emit_json(result)
    else:
        _show_sim(result)


def _timed(network: Network, image: Any, device: str) -> tuple[float, int | None]:
    start = _cpu_seconds()
    run = network.run(image, device=device)
    return _cpu_seconds() - start, run.cycles


def _cpu_seconds() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _summary(seconds: dict[str, list[float]], cycles: int) -> dict[str, Any]:
    median = {device: statistics.median(taken) for device, taken in seconds.items()}
    result: dict[str, Any] = {
        "cycles": cycles,
        "cpu_seconds": seconds,
        "cpu_seconds_median": median,
        "sim_cycles_per_second": cycles / median["cycle"],
        "functional_over_cycle": median["functional"] / median["cycle"],
    }
    if "rtl" in median:
        result |= {
            "rtl_cycles_per_second": cycles / median["rtl"],
            "rtl_over_cycle": median["rtl"] / median["cycle"],
        }
    return result


def _show_sim(result: dict[str, Any]) -> None:
    typer.echo(
        f"{result['model']} on {result['config']}: {result['cycles']:,} cycles, "
        f"{result['sim_cycles_per_second'] / 1e6:.2f} million a CPU second"
    )
    for device, taken in result["cpu_seconds"].items():
        typer.echo(
            f"{device:10} {result['cpu_seconds_median'][device]:.2f} CPU seconds "
            f"(median of {len(taken)}, {min(taken):.2f} to {max(taken):.2f})"
        )
    typer.echo(f"functional over cycle: {result['functional_over_cycle']:.2f}")
    if "rtl_over_cycle" in result:
        typer.echo(
            f"RTL over cycle: {result['rtl_over_cycle']:.1f}; the RTL runs "
            f"{result['rtl_cycles_per_second'] / 1e6:.2f} million cycles a CPU second"
        )
    typer.echo(
        f"compiled in {result['compile_cpu_seconds']:.1f} CPU seconds; "
        f"peak memory {result['peak_rss_bytes'] / 2**20:.0f} MiB"
    )
