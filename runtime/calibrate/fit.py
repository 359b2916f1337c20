"""Measuring a device, and fitting the cycle model's memory to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from vdla.config import Config
from vdla.errors import DeviceError, InputError
from vdla.module import Module
from vdla.runtime.device import Device
from vdla.runtime.run import cycles_of
from vdla.runtime.selftest.network import run_once

from .measure import Counts, Progress, measure
from .programs import Benchmark, benchmarks
from .search import Memory, closest, model_cycles

__all__ = ["TOLERANCE", "Calibration", "Timed", "explain", "fit"]

TOLERANCE = 0.03
"""What a fit must explain every program to within, relative."""


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
    tolerance: float = TOLERANCE,
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
    _check(tolerance)
    counts = measure(device, config=config, network=network, repeats=repeats, progress=progress)
    return explain(counts, config, network=network, tolerance=tolerance)


def explain(
    counts: Counts, config: Config, *, network: Module | None = None, tolerance: float = TOLERANCE
) -> Calibration:
    """Fit the memory to what `measure` counted, wherever that was.

    Parameters
    ----------
    counts : Counts
    config : Config
        Of the machine that counted; its own memory is what the fit is compared with.
    network : Module, optional
        The one that was timed.
    tolerance : float
        As for `fit`.

    Raises
    ------
    InputError
        The counts are of another configuration, or of other programs.
    DeviceError
        No memory of this model explains them.
    """
    _check(tolerance)
    chosen = benchmarks(config)
    counted = counts.cycles
    if counts.config_hash != config.hash:
        raise InputError(
            f"Counts must be of the configuration that is named, {config.name} (hash "
            f"{config.hash:016x}), not of hash {counts.config_hash:016x}: name theirs "
            "with --config."
        )
    if counted.keys() != {benchmark.name for benchmark in chosen}:
        raise InputError(
            "Counts must be of this version's programs, and these are of others: measure again."
        )
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
    _explained(timed, memory, tolerance)
    if network is not None and counts.network is not None:
        timed.append(_network(counts.network, network, config, fitted))
    return Calibration(config, fitted, tuple(timed), _hidden(config, fitting, memory))


def _check(tolerance: float) -> None:
    if not 0 < tolerance < 1:
        raise InputError(
            f"A tolerance must be a fraction in (0, 1), such as 0.03, not {tolerance}."
        )


def _explained(timed: Sequence[Timed], memory: Memory, tolerance: float) -> None:
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


def _network(counted: int, network: Module, config: Config, fitted: Config) -> Timed:
    from vdla.runtime.devices.cycle import CycleDevice

    before, after = (
        cycles_of(run_once(network, CycleDevice(one)).counters) or 0 for one in (config, fitted)
    )
    return Timed(network.name, False, counted, before, after)
