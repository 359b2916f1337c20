"""What holds each layer up, and what a change of the machine would save.

Changes that a program does not see (the memory, the bus) are timed anew, with the same program, so
their figures are exact. A faster core is bounded: the longest path from the start bit to the done
bit holds each issue slot at most once, so slots that fall away save their own number at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vdla.errors import ConfigError
from vdla.module import Module
from vdla.runtime.trace.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FULL", "WhatIf", "bandwidths", "binding", "what_ifs"]

FULL = 0.9
"""A unit that works in this share of a layer's cycles is what binds the layer."""
_WORTH = 0.01
"""A change that saves less than this share of a layer's cycles does not explain it."""
_RATES = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Bytes a cycle at which a network is timed."""


@dataclass(frozen=True)
class WhatIf:
    """A change of the machine and what it saves.

    Attributes
    ----------
    key : str
    words : str
        The change.
    exact : bool
        Whether the same program was timed on the machine so changed; else `saved` is the most.
    cycles : int
        Of the network then; the least, of a bound.
    saved : int
        Cycles of the network.
    layers : dict of str to int
        Cycles of each layer's window; negative where a layer takes longer because the one before
        ends sooner.
    """

    key: str
    words: str
    exact: bool
    cycles: int
    saved: int
    layers: Mapping[str, int]


def what_ifs(timeline: Timeline) -> list[WhatIf]:
    """Return what changes of the machine save, the most first.

    Parameters
    ----------
    timeline : Timeline
        The machine as it is.
    """
    found = []
    for key, words, changes in _changes(timeline):
        try:
            changed = Timeline.of_module(timeline.module, **changes)
        except ConfigError:  # no such machine
            continue
        before, after = _windows(timeline), _windows(changed)
        found.append(
            WhatIf(
                key,
                words,
                True,
                changed.cycles,
                timeline.cycles - changed.cycles,
                {name: before[name] - after.get(name, 0) for name in before},
            )
        )
    found += _bounds(timeline)
    return sorted(found, key=lambda one: -one.saved)


def _changes(timeline: Timeline) -> list[tuple[str, str, dict[str, Any]]]:
    config = timeline.config
    twice: dict[str, Any] = {"axi_data_bits": 2 * config.axi_data_bits}
    if config.dram_bytes_per_cycle:
        twice["dram_bytes_per_cycle"] = 2 * config.dram_bytes_per_cycle
    return [
        ("bandwidth", "twice the bandwidth", twice),
        ("latency", "a memory that answers in the next cycle", {"dram_latency_cycles": 1}),
        (
            "outstanding",
            f"{2 * config.axi_outstanding} bursts in flight instead of {config.axi_outstanding}",
            {"axi_outstanding": 2 * config.axi_outstanding},
        ),
        (
            "burst",
            f"bursts of {2 * config.axi_burst_beats} beats instead of {config.axi_burst_beats}",
            {"axi_burst_beats": 2 * config.axi_burst_beats},
        ),
    ]


def _windows(timeline: Timeline) -> dict[str, int]:
    return {name: end - begin for name, begin, end in timeline.windows()}


def _bounds(timeline: Timeline) -> list[WhatIf]:
    table = timeline.layers
    # However fast the core, memory has to move what it moves.
    floor = max(int(table["load_busy"].sum()), int(table["store_busy"].sum()))
    most = max(timeline.cycles - floor, 0)
    bounds = (
        ("core", "a GEMM core twice as fast", table["compute_gemm"] // 2),
        ("alu", "an ALU that takes no time", table["compute_alu"]),
    )
    return [
        WhatIf(
            key,
            words,
            False,
            timeline.cycles - min(int(slots.sum()), most),
            min(int(slots.sum()), most),
            dict(zip(table["name"], slots.tolist(), strict=True)),
        )
        for key, words, slots in bounds
    ]


def binding(timeline: Timeline, changes: Sequence[WhatIf]) -> dict[str, str]:
    """Return what binds each layer.

    ``GEMM`` or ``ALU``, whichever takes more, where compute works in at least `FULL` of the layer's
    cycles; else the change that saves most of them: ``load bandwidth`` or ``store bandwidth``,
    whichever channel works more, or ``latency``; ``dependences`` where none saves a hundredth,
    since units then wait for each other.

    Parameters
    ----------
    timeline : Timeline
    changes : sequence of WhatIf
        What `what_ifs` returned for it.
    """
    saved = {one.key: one.layers for one in changes}
    found = {}
    for row in timeline.layers.to_dict("records"):
        name, cycles = row["name"], row["cycles"]
        if row["compute_busy"] >= FULL * cycles:
            found[name] = "GEMM" if row["compute_gemm"] >= row["compute_alu"] else "ALU"
            continue
        channel = "load" if row["load_busy"] >= row["store_busy"] else "store"
        words = {"bandwidth": f"{channel} bandwidth", "latency": "latency"}
        best = max(words, key=lambda key: saved.get(key, {}).get(name, 0))
        worth = saved.get(best, {}).get(name, 0) >= _WORTH * cycles
        found[name] = words[best] if worth else "dependences"
    return found


def bandwidths(module: Module, rates: Sequence[float] | None = None) -> pd.DataFrame:
    """Time a network's programs on memories of several speeds.

    Parameters
    ----------
    module : Module
    rates : sequence of float, optional
        Bytes a cycle, each way; from 1 to 32 if not given. Beyond a beat of the bus, the bus is
        made wider.

    Returns
    -------
    DataFrame
        Columns ``network``, ``bytes_per_cycle``, ``cycles``, ``mac_utilization``.
    """
    import pandas as pd

    config = module.config
    rows = []
    for rate in rates or _RATES:
        bits = config.axi_data_bits
        while bits < 8 * rate:
            bits *= 2
        try:
            timed = Timeline.of_module(module, axi_data_bits=bits, dram_bytes_per_cycle=rate)
        except ConfigError:  # no bus is that wide, or no beat that slow
            continue
        macs = int(timed.layers["macs"].sum())
        rows.append(
            {
                "network": module.name,
                "bytes_per_cycle": rate,
                "cycles": timed.cycles,
                "mac_utilization": macs / (timed.cycles * config.macs_per_cycle),
            }
        )
    return pd.DataFrame(rows)
