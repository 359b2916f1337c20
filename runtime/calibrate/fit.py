"""Measuring a device, and fitting the cycle model's memory to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median_low
from typing import Any

import numpy as np

from vdla.config import Config
from vdla.errors import DeviceError, InputError
from vdla.module import Module
from vdla.runtime.device import Device
from vdla.runtime.run import cycles_of
from vdla.runtime.selftest.network import run_once

from .programs import Benchmark, benchmarks
from .search import Memory, closest, model_cycles

__all__ = ["Calibration", "Timed", "fit"]

Progress = Callable[[int, int, str], None]

_TOLERANCE = 0.03
_PATIENT = {"dram_latency_cycles": 2000}
"""What a program is encoded for: the limit after which a device stops it follows from it."""


@dataclass(frozen=True)
class Timed:
    """A program's cycles.

    Attributes
    ----------
    name : str
    fitted : bool
        Whether it took part in the fit.
    counted, before, after : int
        The device's, and the cycle model's before and after the fit.
    """

    name: str
    fitted: bool
    counted: int
    before: int
    after: int

    @property
    def error_before(self) -> float:
        """Relative error of the model before the fit."""
        return self.before / self.counted - 1

    @property
    def error_after(self) -> float:
        """And after it."""
        return self.after / self.counted - 1


@dataclass(frozen=True)
class Calibration:
    """What a fit found.

    Attributes
    ----------
    before, config : Config
        The configuration that was asked for, and the one with the fitted memory.
    timed : sequence of Timed
    at_least : bool
        Whether more bandwidth would fit as well: latency hides it.
    """

    before: Config
    config: Config
    timed: Sequence[Timed]
    at_least: bool

    @property
    def error(self) -> float:
        """Largest relative error of the programs that were fitted."""
        return max(abs(one.error_after) for one in self.timed if one.fitted)

    def summary(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dicts."""
        return {
            "config": self.config.name,
            "dram_latency_cycles": self.config.dram_latency_cycles,
            "dram_bytes_per_cycle": self.config.dram_bytes_per_cycle,
            "bandwidth_is_least": self.at_least,
            "error": self.error,
            "programs": [
                asdict(one) | {"error_before": one.error_before, "error_after": one.error_after}
                for one in self.timed
            ],
        }


def fit(
    device: Device,
    *,
    config: Config | None = None,
    network: Module | None = None,
    tolerance: float = _TOLERANCE,
    repeats: int = 1,
    progress: Progress | None = None,
) -> Calibration:
    """Fit the memory's latency and bandwidth to the cycles that a device counts.

    Parameters
    ----------
    device : Device
    config : Config, optional
        What is known of the machine, of the device's hash; by default the device's configuration.
    network : Module, optional
        Timed as well, to see how good the fit is.
    tolerance : float
        Largest relative error of a program that the fit must explain.
    repeats : int
        Runs of each program, of which the median counts: a board's memory is shared.
    progress : callable, optional
        Called with the steps done, the steps in all, and what runs.

    Raises
    ------
    DeviceError
        The device counts no cycles, or does not behave like any memory of this model.
    """
    config = device.config if config is None else config
    if not 0 < tolerance < 1:
        raise InputError(
            f"A tolerance must be a fraction in (0, 1), such as 0.03, not {tolerance}."
        )
    chosen = benchmarks(config)
    tell = progress or (lambda done, total, doing: None)
    total = len(chosen) + 2
    counted = _measure(device, chosen, repeats, lambda k, name: tell(k, total, name))
    tell(len(chosen), total, "fitting")
    fitting = tuple(benchmark for benchmark in chosen if not benchmark.held_out)
    memory = closest(config, fitting, counted)
    fitted = memory.of(config.replace(name=f"{config.name}-calibrated"))
    timed = [
        Timed(
            benchmark.name,
            not benchmark.held_out,
            counted[benchmark.name],
            model_cycles(benchmark, config),
            model_cycles(benchmark, fitted),
        )
        for benchmark in chosen
    ]
    _explain(timed, memory, tolerance)
    if network is not None:
        tell(total - 1, total, network.name)
        timed.append(_network(device, network, config, fitted))
    return Calibration(config, fitted, tuple(timed), _hidden(config, fitting, memory))


def _measure(
    device: Device,
    chosen: Sequence[Benchmark],
    repeats: int,
    tell: Callable[[int, str], None],
) -> dict[str, int]:
    base = device.allocate(max(benchmark.nbytes for benchmark in chosen))
    counted = {}
    for number, benchmark in enumerate(chosen):
        tell(number, benchmark.name)
        program = replace(benchmark.program, config=benchmark.program.config.replace(**_PATIENT))
        runs = []
        for _ in range(repeats):
            device.write(base, np.zeros(benchmark.nbytes, np.uint8))
            device.launch(program, base)
            device.wait()
            counters = device.counters()
            if counters.cycles is None:
                raise DeviceError(
                    "A device must count cycles to be calibrated, and this one has no time: use "
                    "rtl or pynq."
                )
            runs.append(counters.cycles)
        counted[benchmark.name] = int(median_low(runs))
    return counted


def _explain(timed: Sequence[Timed], memory: Memory, tolerance: float) -> None:
    worst = max((one for one in timed if one.fitted), key=lambda one: abs(one.error_after))
    if abs(worst.error_after) > tolerance:
        raise DeviceError(
            f"A fit must explain every program to within {tolerance:.1%}, and the best, a latency "
            f"of {memory.latency} cycles and {memory.steps / 1024:.3f} bytes a cycle, takes "
            f"{worst.after} cycles for {worst.name} where the device counts {worst.counted} "
            f"({worst.error_after:+.1%}): quiet what else uses its memory, test the device with "
            "vdla selftest, or allow more with --tolerance."
        )


def _hidden(config: Config, fitting: Sequence[Benchmark], memory: Memory) -> bool:
    """Whether no program would be faster with 2 % more bandwidth."""
    found, full = memory.of(config), config.axi_bytes * 1024
    if memory.steps == full:
        return False
    more = replace(memory, steps=min(full, memory.steps * 51 // 50)).of(config)
    return all(model_cycles(one, found) == model_cycles(one, more) for one in fitting)


def _network(device: Device, network: Module, config: Config, fitted: Config) -> Timed:
    from vdla.runtime.devices.cycle import CycleDevice

    if not network.programs:
        raise InputError(
            f"A network to compare must use the accelerator, and {network.name} does not: name "
            "another."
        )
    counted, before, after = (
        cycles_of(run_once(network, one).counters) or 0
        for one in (device, CycleDevice(config), CycleDevice(fitted))
    )
    return Timed(network.name, False, counted, before, after)
