"""Whole networks on the cycle model, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vdla.runtime.inputs import random_input

if TYPE_CHECKING:
    from vdla.config import Config

__all__ = ["NETWORKS", "measure_networks"]

NETWORKS = ("resnet18", "resnet34", "resnet50", "mobilenet_v1", "mobilenet_v2")
"""What is measured unless others are named."""


def measure_networks(
    models: Sequence[str],
    config: Config,
    *,
    check: bool,
    progress: Callable[[int, int, str], None],
) -> dict[str, Any]:
    """Compile networks anew and run an image through each on the cycle model.

    Returns
    -------
    dict
        ``networks``: ``name``, ``macs`` (of the layers on VDLA), ``cycles``, ``milliseconds`` at
        the configuration's clock, ``mac_utilization``, ``dram_bytes``, ``arena_bytes``,
        ``host_layers``, ``compile_cpu_seconds``, and with `check` ``bit_exact``.
    """
    from vdla.runtime import api

    networks = []
    for number, model in enumerate(models):
        progress(number, len(models), model)
        graph = api.read_graph(model)
        start = time.process_time()
        network = api.compile(graph, config=config, cache=False)
        seconds = time.process_time() - start
        run = network.run(random_input(network.input_shape, network.input_dtype), check=check)
        summary = run.summary()
        cycles = run.cycles or 0
        row: dict[str, Any] = {
            "name": graph.name,
            "macs": sum(layer.macs for layer in network.module.layers if layer.device == "vdla"),
            "cycles": cycles,
            "milliseconds": cycles / config.clock_mhz / 1e3,
            "mac_utilization": summary["mac_utilization"],
            "dram_bytes": sum(layer["dram_bytes"] or 0 for layer in summary["layers"]),
            "arena_bytes": network.module.arena_bytes,
            "host_layers": sum(layer.device == "cpu" for layer in network.module.layers),
            "compile_cpu_seconds": seconds,
        }
        if check:
            row["bit_exact"] = run.bit_exact
        networks.append(row)
    return {
        "networks": networks,
        "config": config.name,
        "config_hash": f"{config.hash:016x}",
    }
