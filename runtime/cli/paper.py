"""The accelerator's results of the TVM paper, and this accelerator's beside them.

Tianqi Chen and others, "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning",
OSDI 2018 (arXiv 1802.04799), sections 4.4 and 6.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vdla.config import PAPER, PYNQ_Z1, Config
from vdla.runtime.cli.convolutions import measure
from vdla.runtime.inputs import random_input

__all__ = ["CPU_MACS_A_SECOND", "measure_paper"]

PAPER_USE = {"1": 0.70, "2": 0.88}
"""Use of the core at its peak over ResNet's convolutions, without and with latency hiding
(section 4.4)."""

PAPER_SPEEDUP = 40
"""Of the offloaded convolutions against the PYNQ's Cortex-A9 (section 6.4)."""

VTA_CYCLES = 7_730_000
"""ResNet-18's offloaded convolutions on VTA's cycle model (tvm-vta, pull request 30), whose memory
answers in the next cycle."""

CPU_MACS_A_SECOND = PAPER.macs_per_cycle * PAPER.clock_mhz * 1e6 * PAPER_USE["2"] / PAPER_SPEEDUP
"""The processor, as a model: what makes `PAPER_SPEEDUP` of the paper's accelerator at its peak use.

1.13e9 a second, which is two fifths of the peak of two Cortex-A9 at 650 MHz with NEON.
"""

_IDEAL = PYNQ_Z1.replace(name="pynq-z1, memory of 1 cycle", dram_latency_cycles=1)
Progress = Callable[[int, int, str], None]


def measure_paper(progress: Progress) -> dict[str, Any]:
    """Run what the paper ran on the cycle model.

    Returns
    -------
    dict
        ``machines``: for `PAPER` and the default the ten convolutions, the use of the core by
        number of virtual threads and what offloading removes; ``vta``: cycles of all convolutions
        with a memory as VTA's cycle model has it; ``cpu``: the processor's model; ``paper``:
        the figures that it gives.
    """
    configs = (PAPER, PYNQ_Z1, _IDEAL)
    measured = []
    for number, config in enumerate(configs):
        progress(number, len(configs) + 2, config.name)
        measured.append(measure(config, check=False, progress=lambda *_: None))
    machines = []
    for number, (config, found) in enumerate(zip((PAPER, PYNQ_Z1), measured, strict=False)):
        progress(len(configs) + number, len(configs) + 2, f"resnet18 on {config.name}")
        machines.append(machine(config, found, whole_cycles(config)))
    return {
        "machines": machines,
        "vta": {
            "cycles": VTA_CYCLES,
            "ours": _cycles(measured[2]["layers"], "2"),
            "ideal": sum(n["occurrences"] * n["mac_cycles_ideal"] for n in measured[2]["layers"]),
            "contract": "memory answers in the next cycle; nothing contends",
        },
        "cpu": {
            "macs_per_second": CPU_MACS_A_SECOND,
            "model": "as many as give the paper's 40 times for its accelerator at 88 % of its "
            "peak; operators without products take no time",
        },
        "paper": {"peak_use": PAPER_USE, "speedup": PAPER_SPEEDUP},
    }


def machine(config: Config, found: Mapping[str, Any], whole: Mapping[str, int]) -> dict[str, Any]:
    """Return a machine's figures from its convolutions and the whole network.

    Parameters
    ----------
    config : Config
    found : mapping
        As `measure` of the convolutions returns it.
    whole : mapping
        ``cycles`` and ``macs`` of the whole ResNet-18.
    """
    layers = []
    for layer in found["layers"]:
        macs = layer["mac_cycles_ideal"] * config.macs_per_cycle
        on_cpu, here = macs / CPU_MACS_A_SECOND, _seconds(layer["cycles"]["2"], config)
        layers.append(
            {
                "name": layer["name"],
                "shape": layer["shape"],
                "occurrences": layer["occurrences"],
                "use": layer["mac_utilization"],
                "cpu_seconds": on_cpu,
                "seconds": here,
                "speedup": on_cpu / here,
                "removed": 1 - here / on_cpu,
            }
        )
    offloaded = sum(n["occurrences"] * n["mac_cycles_ideal"] for n in found["layers"])
    offloaded_macs = offloaded * config.macs_per_cycle
    cpu = whole["macs"] / CPU_MACS_A_SECOND
    convolutions = _seconds(_cycles(found["layers"], "2"), config)
    partly = (whole["macs"] - offloaded_macs) / CPU_MACS_A_SECOND + convolutions
    wholly = _seconds(whole["cycles"], config)
    return {
        "config": config.name,
        "config_hash": f"{config.hash:016x}",
        "peak_gops": config.peak_gops,
        "layers": layers,
        "peak_use": {n: max(layer["use"][n] for layer in layers) for n in ("1", "2")},
        "use": found["mac_utilization"],
        "speedup": offloaded_macs / CPU_MACS_A_SECOND / convolutions,
        "cpu_seconds": cpu,
        "offloaded_seconds": partly,
        "offloaded_removed": 1 - partly / cpu,
        "whole_seconds": wholly,
        "whole_removed": 1 - wholly / cpu,
    }


def whole_cycles(config: Config) -> dict[str, int]:
    """Return cycles and multiply-accumulates of the whole ResNet-18 on the accelerator."""
    from vdla.runtime import api

    network = api.compile("resnet18", config=config)
    run = network.run(random_input(network.input_shape, network.input_dtype))
    return {
        "cycles": run.cycles or 0,
        "macs": sum(layer.macs for layer in network.module.layers),
    }


def _cycles(layers: Sequence[Mapping[str, Any]], threads: str) -> int:
    return sum(layer["occurrences"] * layer["cycles"][threads] for layer in layers)


def _seconds(cycles: float, config: Config) -> float:
    return cycles / (config.clock_mhz * 1e6)
