"""What each pass of the network compiler is worth, and what moves against what must."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vdla.compiler import passes as graph_passes
from vdla.compiler.network import PASSES
from vdla.module import Module, Pack, Relayout, Unpack
from vdla.runtime.inputs import random_input

if TYPE_CHECKING:
    from vdla.config import Config
    from vdla.runtime.run import Run

__all__ = ["measure_passes", "measure_traffic"]

Progress = Callable[[int, int, str], None]


def measure_passes(model: str, config: Config, *, progress: Progress) -> dict[str, Any]:
    """Compile a network with every pass, then without each one, and run it on the cycle model.

    Returns
    -------
    dict
        ``variants``: ``without`` (a pass, or None), ``what`` it does, ``cycles``, ``dram_bytes``
        (of the accelerator), ``arena_bytes`` (its memory), ``host_bytes`` (packed and unpacked
        by the host's processor) and ``host_layers`` (computed there).
    """
    variants: list[dict[str, Any]] = []
    what = {**PASSES, **_graph_passes(model)}
    choices = (None, *what)
    for number, name in enumerate(choices):
        progress(number, len(choices), "all passes" if name is None else f"without {name}")
        run = _run(model, config, () if name is None else (name,))
        layers = run.summary()["layers"]
        variants.append(
            {
                "without": name,
                "what": "" if name is None else what[name],
                "cycles": run.cycles,
                "dram_bytes": sum(layer["dram_bytes"] or 0 for layer in layers),
                "arena_bytes": run.module.arena_bytes,
                "host_bytes": _host_bytes(run.module),
                "host_layers": sum(layer.device == "cpu" for layer in run.module.layers),
            }
        )
    return {
        "model": model,
        "variants": variants,
        "config": config.name,
        "config_hash": f"{config.hash:016x}",
    }


def measure_traffic(model: str, config: Config, *, progress: Progress) -> dict[str, Any]:
    """Run a network on the cycle model and set the bytes each layer moves against the least.

    Returns
    -------
    dict
        ``layers``: ``name``, ``op``, ``dram_bytes`` and ``dram_bytes_least`` (each weight and each
        activation once, channels not padded); and both over all.
    """
    progress(0, 1, model)
    run = _run(model, config, ())
    layers = [
        {key: layer[key] for key in ("name", "op", "dram_bytes", "dram_bytes_least")}
        for layer in run.summary()["layers"]
        if layer["dram_bytes"]
    ]
    return {
        "model": model,
        "layers": layers,
        "dram_bytes": sum(layer["dram_bytes"] for layer in layers),
        "dram_bytes_least": sum(layer["dram_bytes_least"] for layer in layers),
        "config": config.name,
        "config_hash": f"{config.hash:016x}",
    }


def _run(model: str, config: Config, without: tuple[str, ...]) -> Run:
    from vdla.runtime import api

    network = api.compile(model, config=config, without=without)
    return network.run(random_input(network.input_shape, network.input_dtype))


def _graph_passes(model: str) -> dict[str, str]:
    """Return the passes over the graph that is read from a file, and the rule of each."""
    if not model.endswith(".onnx"):
        return {}
    rules = {}
    for name, change in graph_passes.PASSES.items():
        first = (change.__doc__ or "").strip().splitlines()[0].rstrip(".")
        rules[name] = first[0].lower() + first[1:]
    return rules


def _host_bytes(module: Module) -> int:
    total = 0
    for step in module.steps:
        if isinstance(step, (Pack, Unpack)):
            total += module.buffers[step.buffer].nbytes
        elif isinstance(step, Relayout):
            total += module.buffers[step.source].nbytes + module.buffers[step.target].nbytes
    return total
