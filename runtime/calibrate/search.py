"""Latency and bandwidth for which the cycle model takes the cycles that were counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.config import Config

from .programs import Benchmark

__all__ = ["Memory", "closest", "model_cycles"]

_STEPS = 1024
"""Steps of a byte in which a configuration counts bandwidth."""
_SLOWEST_BEAT = 64
_LONGEST_LATENCY = 4096
_ROUNDS = 3
_CHAIN, _LONG = "chain of loads", "long loads"


@dataclass(frozen=True, order=True)
class Memory:
    """A candidate: latency in cycles, and 1024ths of a byte a cycle."""

    latency: int
    steps: int

    def of(self, config: Config) -> Config:
        """Return a configuration with this memory."""
        return config.replace(
            name=config.name,
            dram_latency_cycles=self.latency,
            dram_bytes_per_cycle=self.steps / _STEPS,
        )


def model_cycles(benchmark: Benchmark, config: Config) -> int:
    """Return the cycles of the cycle model with the memory of a configuration."""
    from vdla.sim import cycle  # numba, which a board that only measures does not have

    return cycle.time(replace(benchmark.program, config=config)).cycles


def closest(
    config: Config, benchmarks: tuple[Benchmark, ...], counted: Mapping[str, int]
) -> Memory:
    """Return the memory whose relative errors have the least squares.

    A chain of loads takes longer with each cycle of latency, a long load with each step of
    bandwidth that is missing: two bisections, one after the other, come close. From there a search
    in ever smaller steps looks at all programs.

    Parameters
    ----------
    config : Config
        The machine; its own memory does not matter.
    benchmarks : tuple of Benchmark
    counted : mapping of str to int
        Cycles by name.
    """
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    losses: dict[Memory, float] = {}
    least, most = config.axi_bytes * _STEPS // _SLOWEST_BEAT, config.axi_bytes * _STEPS

    def loss(memory: Memory) -> float:
        if memory not in losses:
            candidate = memory.of(config)
            errors = [
                model_cycles(benchmark, candidate) / counted[benchmark.name] - 1
                for benchmark in benchmarks
            ]
            losses[memory] = float(np.square(errors).sum())
        return losses[memory]

    def takes(name: str, memory: Memory) -> int:
        return model_cycles(by_name[name], memory.of(config))

    def latency_at(steps: int) -> int:
        return _first(
            1, _LONGEST_LATENCY, lambda n: takes(_CHAIN, Memory(n, steps)) >= counted[_CHAIN]
        )

    def steps_at(latency: int) -> int:
        return _first(least, most, lambda n: takes(_LONG, Memory(latency, n)) <= counted[_LONG])

    steps = most
    for _ in range(_ROUNDS):
        latency = latency_at(steps)
        steps = steps_at(latency)
    memory = _descend(Memory(latency, steps), loss, least, most)
    whole = replace(memory, steps=most)
    return whole if loss(whole) <= loss(memory) else memory


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the least number that a growing condition holds for, `high` where for none."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _descend(start: Memory, loss: Callable[[Memory], float], least: int, most: int) -> Memory:
    best = start
    by_latency, by_steps = max(1, start.latency // 8), max(1, start.steps // 16)
    while True:
        around = [
            Memory(
                min(max(best.latency + x * by_latency, 1), _LONGEST_LATENCY),
                min(max(best.steps + y * by_steps, least), most),
            )
            for x in (-1, 0, 1)
            for y in (-1, 0, 1)
        ]
        better = min(around, key=lambda memory: (loss(memory), memory != best))
        if better != best:
            best = better
        elif by_latency == 1 and by_steps == 1:
            return best
        else:
            by_latency, by_steps = max(1, by_latency // 2), max(1, by_steps // 2)
