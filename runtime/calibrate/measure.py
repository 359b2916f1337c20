"""What a device counts for each program; this needs no cycle model, so a board can do it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

import numpy as np

from vdla.config import Config
from vdla.errors import DeviceError, InputError
from vdla.module import Module
from vdla.runtime.device import Device
from vdla.runtime.run import cycles_of
from vdla.runtime.selftest.network import run_once

from .programs import benchmarks

__all__ = ["Counts", "Progress", "measure"]

Progress = Callable[[int, int, str], None]

_PATIENT = {"dram_latency_cycles": 2000}
"""What a program is encoded for: the limit after which a device stops it follows from it."""


@dataclass(frozen=True)
class Counts:
    """Cycles that a device counted.

    Attributes
    ----------
    config_hash : int
        Of its configuration.
    cycles : mapping of str to int
        By program.
    network : int or None
        Of a whole network.
    """

    config_hash: int
    cycles: Mapping[str, int]
    network: int | None = None

    def to_json(self) -> str:
        """Return text that `read` takes."""
        values = {
            "config_hash": f"{self.config_hash:016x}",
            "cycles": dict(self.cycles),
            "network": self.network,
        }
        return json.dumps(values, indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> Counts:
        """Read a file.

        Raises
        ------
        InputError
            It cannot be read, or holds something else.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            cycles = {str(name): int(count) for name, count in values["cycles"].items()}
            network = values["network"]
            return cls(int(values["config_hash"], 16), cycles, network and int(network))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f"A file of counts must be what vdla calibrate --measure wrote: {path}: {error}"
            ) from None


def measure(
    device: Device,
    *,
    config: Config | None = None,
    network: Module | None = None,
    repeats: int = 1,
    progress: Progress | None = None,
) -> Counts:
    """Run the programs on a device, and return what it counts.

    Parameters
    ----------
    device : Device
    config : Config, optional
        Of the device's hash; by default the device's own.
    network : Module, optional
        Timed as well.
    repeats : int
        Runs of each program, of which the median counts: a board's memory is shared.
    progress : callable, optional
        Called with the steps done, the steps in all, and what runs.

    Raises
    ------
    DeviceError
        The device counts no cycles.
    """
    config = device.config if config is None else config
    chosen = benchmarks(config.replace(name=config.name, **_PATIENT))
    tell = progress or (lambda done, total, doing: None)
    base = device.allocate(max(benchmark.nbytes for benchmark in chosen))
    counted = {}
    for number, benchmark in enumerate(chosen):
        tell(number, len(chosen) + 1, benchmark.name)
        runs = []
        for _ in range(repeats):
            device.write(base, np.zeros(benchmark.nbytes, np.uint8))
            device.launch(benchmark.program, base)
            device.wait()
            cycles = device.counters().cycles
            if cycles is None:
                raise DeviceError(
                    "A device must count cycles to be calibrated, and this one has no time: use "
                    "rtl or pynq."
                )
            runs.append(cycles)
        counted[benchmark.name] = int(median_low(runs))
    if network is None:
        return Counts(config.hash, counted)
    if not network.programs:
        raise InputError(
            f"A network to compare must use the accelerator, and {network.name} does not: name "
            "another."
        )
    tell(len(chosen), len(chosen) + 1, network.name)
    return Counts(config.hash, counted, cycles_of(run_once(network, device).counters))
