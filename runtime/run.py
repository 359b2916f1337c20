"""The results of running a network: outputs, cycles, a table of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.module import Layer, Module
from vdla.runtime.device import Counters, LayerCounters
from vdla.runtime.session import Timing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answer", "Run", "cycles_of"]

_VDLA = "vdla"
_UNTOUCHED = LayerCounters(0, 0, {})
"""A view moves no byte."""


def cycles_of(programs: Sequence[Counters]) -> int | None:
    """Return the cycles of programs together; None on a device without time."""
    counted = [c.cycles for c in programs]
    return None if any(c is None for c in counted) else sum(c or 0 for c in counted)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a network says to one image of a stream.

    Attributes
    ----------
    outputs : dict of str to array
        One row of each output.
    counters : list of Counters
        Of the pass that the image took part in, one a program.
    timing : Timing
        Of that pass.
    images : int
        How many images took part in it.
    clock_mhz : float
        What the device counted its cycles at.
    """

    outputs: Mapping[str, NDArray[Any]]
    counters: list[Counters]
    timing: Timing
    images: int
    clock_mhz: float

    @property
    def cycles(self) -> int | None:
        """Cycles of the pass; None on a device without time."""
        return cycles_of(self.counters)

    @property
    def accelerator_seconds(self) -> float | None:
        """What the cycles take; None on a device without time."""
        return None if self.cycles is None else self.cycles / self.clock_mhz / 1e6


@dataclass(frozen=True, eq=False)
class Run:
    """What a network gave for some images.

    Attributes
    ----------
    module : Module
        What ran.
    outputs : dict of str to array
        (n, ...) by tensor.
    counters : sequence of Counters
        One a program, for one pass of the network: `Config.batch` images at most.
    timings : sequence of Timing
        Where the time of each group of passes went that shared a device's memories.
    clock_mhz : float
        What the device counted its cycles at.
    sim_seconds : float
        Processor time that the simulator took for all passes, values included; neither imports nor
        just-in-time compilation, nor the operators on the cpu.
    passes : int
        How many passes the images took.
    images_a_pass : int
        Images of the pass that was counted.
    bit_exact : bool or None
        Whether every layer equals the integer interpreter; None if that was not asked.
    first_difference : str or None
        Layer, index, and both values.
    """

    module: Module
    outputs: Mapping[str, NDArray[Any]]
    counters: Sequence[Counters]
    timings: Sequence[Timing]
    clock_mhz: float
    sim_seconds: float
    passes: int
    images_a_pass: int
    bit_exact: bool | None = None
    first_difference: str | None = None

    @property
    def cycles(self) -> int | None:
        """Cycles of one pass, all programs together; None on a device without time."""
        return cycles_of(self.counters)

    @property
    def layers(self) -> pd.DataFrame:
        """A row a layer.

        Columns ``name``, ``op``, ``device``, ``macs`` (one image), ``cycles``,
        ``mac_utilization``, ``dram_bytes``, ``dram_bytes_least`` (each weight and each activation
        once, without padding), and one ``wait_...`` for each cause for which the
        compute module waited, in cycles. What has no time is missing.
        """
        import pandas as pd

        rows = []
        for layer, spec in zip(self._layers(), self.module.layers, strict=True):
            waiting = layer.pop("waiting") or {}
            rows.append({**layer, "macs": spec.macs} | {f"wait_{k}": n for k, n in waiting.items()})
        return pd.DataFrame(rows)

    def summary(self) -> dict[str, Any]:
        """Return the figures of the run as plain numbers, strings, lists and dicts.

        ``mac_cycles_ideal`` is what the multiply-accumulates of the layers on VDLA would take if
        every cell of the core worked in every cycle; ``waiting`` of a layer counts the cycles of
        its compute module by cause. Where a device has no time, and for layers on the cpu, figures
        of time are None.
        """
        cycles, macs = self.cycles, self._macs()
        peak = self.module.config.macs_per_cycle
        simulated = None if cycles is None else cycles * self.passes
        summary = {
            "cycles": cycles,
            "clock_mhz": self.clock_mhz,
            "mac_cycles_ideal": -(-macs // peak),
            "mac_utilization": macs / (cycles * peak) if cycles else None,
            "layers": self._layers(),
            "sim_seconds": self.sim_seconds,
            "processor_seconds": sum(timing.processor for timing in self.timings),
            "sim_cycles_per_second": (
                simulated / self.sim_seconds if simulated and self.sim_seconds else None
            ),
            "config": self.module.config.name,
            "config_hash": f"{self.module.config.hash:016x}",
        }
        if self.bit_exact is not None:
            summary["bit_exact"] = self.bit_exact
        return summary

    def _macs(self) -> int:
        """Return the multiply-accumulates on VDLA of one pass."""
        macs = sum(layer.macs for layer in self.module.layers if layer.device == _VDLA)
        return macs * self.images_a_pass

    def _layers(self) -> list[dict[str, Any]]:
        counted = {name: c for program in self.counters for name, c in program.layers.items()}
        peak = self.module.config.macs_per_cycle
        timed = self.cycles is not None
        rows = []
        for layer in self.module.layers:
            row: dict[str, Any] = {"name": layer.name, "op": layer.op, "device": layer.device}
            row["fused_into"] = layer.fused_into or None
            if timed and layer.device == _VDLA and not layer.fused_into:
                c = counted.get(layer.name, _UNTOUCHED)
                macs = layer.macs * self.images_a_pass
                row |= {
                    "cycles": c.cycles,
                    "mac_utilization": macs / (c.cycles * peak) if c.cycles else None,
                    "dram_bytes": c.dram_bytes,
                    "dram_bytes_least": self._least_bytes(layer),
                    "waiting": dict(c.waiting),
                }
            else:
                row |= dict.fromkeys(
                    ("cycles", "mac_utilization", "dram_bytes", "dram_bytes_least", "waiting")
                )
            rows.append(row)
        return rows

    def _least_bytes(self, layer: Layer) -> int:
        """Return the bytes of a layer's tensors, each counted once."""
        total = 0
        for name in (*layer.inputs, *layer.outputs):
            tensor = self.module.tensors[name]
            images = 1 if tensor.data is not None else self.images_a_pass
            total += images * prod(tensor.shape) * np.dtype(tensor.dtype).itemsize
        return total
