"""Two results layer by layer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.errors import InputError
from vdla.runtime.trace.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "Result", "compare", "of_json", "of_timeline"]

_FIGURES = ("cycles", "bytes", "mac_utilization")


@dataclass(frozen=True)
class Result:
    """What was counted of a network on a machine.

    Attributes
    ----------
    title : str
        What tells it from the other one.
    config : str
    clock_mhz : float or None
        None where nobody has said it.
    cycles : int
    mac_utilization : float or None
    layers : dict of str to dict
        ``cycles``, ``bytes`` and ``mac_utilization`` of each layer on the accelerator, in order.
    """

    title: str
    config: str
    clock_mhz: float | None
    cycles: int
    mac_utilization: float | None
    layers: Mapping[str, Mapping[str, Any]]

    @property
    def bytes(self) -> int:
        """Bytes that all layers move."""
        return sum(layer["bytes"] for layer in self.layers.values())


def of_timeline(timeline: Timeline, title: str) -> Result:
    """Return the figures of a timed network."""
    peak = timeline.config.macs_per_cycle
    table = timeline.layers
    macs = int(table["macs"].sum())
    return Result(
        title=title,
        config=timeline.config.name,
        clock_mhz=timeline.config.clock_mhz,
        cycles=timeline.cycles,
        mac_utilization=macs / (timeline.cycles * peak) if macs else None,
        layers={
            row["name"]: {
                "cycles": row["cycles"],
                "bytes": row["bytes_read"] + row["bytes_written"],
                "mac_utilization": row["mac_utilization"] if row["macs"] else None,
            }
            for row in table.to_dict("records")
        },
    )


def of_json(path: Path) -> Result:
    """Return the figures that ``vdla simulate --json`` or ``vdla run --json`` printed.

    Raises
    ------
    InputError
        The file holds something else.
    """
    try:
        saved = json.loads(path.read_text("utf-8"))
        layers = {
            row["name"]: {
                "cycles": row["cycles"],
                "bytes": row["dram_bytes"],
                "mac_utilization": row["mac_utilization"],
            }
            for row in saved["layers"]
            if row["cycles"] is not None
        }
        clock = saved.get("clock_mhz")
        figures = [saved["cycles"], saved["mac_utilization"], 1 if clock is None else clock]
        figures += [row[name] for row in layers.values() for name in ("cycles", "bytes")]
        wrong = [one for one in figures if not _is_figure(one)]
        if wrong or not figures[2]:
            raise ValueError(f"a figure is {wrong[0]!r}" if wrong else "clock_mhz is 0")
        return Result(
            title=path.name,
            config=saved["config"],
            clock_mhz=clock,
            cycles=int(saved["cycles"]),
            mac_utilization=saved["mac_utilization"],
            layers=layers,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"A saved result must be what vdla simulate MODEL --json printed, with cycles: {path}: "
            f"{what}; save one with > {path.name}"
        ) from None


def _is_figure(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < inf  # type: ignore[operator]


@dataclass(frozen=True)
class Comparison:
    """Two results side by side.

    Attributes
    ----------
    a, b : Result
    """

    a: Result
    b: Result

    @property
    def layers(self) -> pd.DataFrame:
        """A row a layer: ``cycles_a``, ``cycles_b``, ``ratio`` (b over a), ``bytes_a``, ….

        Layers stand in the order of `a`, those of `b` alone behind; what one lacks is missing.
        """
        import pandas as pd

        names = list(dict.fromkeys([*self.a.layers, *self.b.layers]))
        rows = []
        for name in names:
            row: dict[str, Any] = {"name": name}
            for figure in _FIGURES:
                for side, result in (("a", self.a), ("b", self.b)):
                    row[f"{figure}_{side}"] = result.layers.get(name, {}).get(figure)
            row["ratio"] = _ratio(row["cycles_b"], row["cycles_a"])
            rows.append(row)
        return pd.DataFrame(rows).astype(
            {f"{figure}_{side}": "Int64" for figure in ("cycles", "bytes") for side in "ab"}
        )

    def summary(self) -> dict[str, Any]:
        """Return all figures as plain numbers, strings, lists and dicts."""
        import pandas as pd

        sides = {
            side: {
                "title": result.title,
                "config": result.config,
                "cycles": result.cycles,
                "milliseconds": _milliseconds(result),
                "bytes": result.bytes,
                "mac_utilization": result.mac_utilization,
            }
            for side, result in (("a", self.a), ("b", self.b))
        }
        return {
            **sides,
            "ratio": _ratio(self.b.cycles, self.a.cycles),
            "time_ratio": _ratio(_milliseconds(self.b), _milliseconds(self.a)),
            "layers": [
                {key: None if pd.isna(value) else value for key, value in row.items()}
                for row in self.layers.to_dict("records")
            ],
        }


def compare(a: Result, b: Result) -> Comparison:
    """Set two results side by side.

    Raises
    ------
    InputError
        They share no layer.
    """
    if not a.layers.keys() & b.layers.keys():
        raise InputError(
            f"A comparison needs layers of the same names, and {a.title} and {b.title} share none: "
            "compare two results of one network."
        )
    return Comparison(a, b)


def _milliseconds(result: Result) -> float | None:
    return None if result.clock_mhz is None else result.cycles / result.clock_mhz / 1000


def _ratio(b: float | None, a: float | None) -> float | None:
    return None if a is None or b is None or not a else b / a
