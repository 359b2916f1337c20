"""The model's weights, fitted to configurations that yosys synthesized, and how far it is off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import PRESETS, Config

from .features import GROWN, fixed, grown

__all__ = ["Fit", "Sample", "beyond", "left_out", "samples"]

Weights = NDArray[np.float64]

_RANGED = (
    "batch",
    "block_in",
    "block_out",
    "macs_per_cycle",
    "axi_data_bits",
    "axi_outstanding",
    "axi_burst_beats",
    "command_queue_depth",
    "token_queue_depth",
    "uop_bytes",
    "inp_bytes",
    "wgt_bytes",
    "acc_bytes",
)
"""What the units' sizes follow from."""

_RIDGE = 1e-3
"""Pull of the weights towards zero, where samples do not tell features apart."""


@dataclass(frozen=True)
class Sample:
    """A synthesized configuration: LUTs and flip-flops by unit, and the totals."""

    config: Config
    family: str
    units: dict[str, tuple[int, int]]
    lut: int
    ff: int
    dsp: int
    bram36: float


class Fit:
    """Weights fitted to samples.

    Parameters
    ----------
    chosen : sequence of Sample
    """

    def __init__(self, chosen: Sequence[Sample]) -> None:
        self._weights: dict[str, tuple[Weights, Weights]] = {}
        for unit in GROWN:
            features = [grown(unit, s.config, s.family) for s in chosen]
            known = [fixed(unit, s.config, s.family) for s in chosen]
            luts, ffs = (
                _weights(
                    np.array([row[k] for row in features]),
                    np.array(
                        [s.units[unit][k] - row[k] for s, row in zip(chosen, known, strict=True)]
                    ),
                )
                for k in (0, 1)
            )
            self._weights[unit] = (luts, ffs)

    def units(self, config: Config, family: str) -> dict[str, tuple[int, int]]:
        """Return LUTs and flip-flops by unit."""
        found = {}
        for unit in sorted({*GROWN, "compute.datapath.product"}):
            lut, ff = fixed(unit, config, family)
            if unit in self._weights:
                features, weights = grown(unit, config, family), self._weights[unit]
                lut += float(np.dot(features[0], weights[0]))
                ff += float(np.dot(features[1], weights[1]))
            found[unit] = (max(0, round(lut)), max(0, round(ff)))
        return found


def _weights(features: Weights, wanted: Weights) -> Weights:
    """Return the weights, least squares, of features (samples, n) that give wanted (samples,)."""
    scale = np.abs(features).max(axis=0)
    scale[scale == 0] = 1
    scaled = features / scale
    square = scaled.T @ scaled + _RIDGE * np.eye(scaled.shape[1])
    found: Weights = np.linalg.solve(square, scaled.T @ wanted) / scale
    return found


@lru_cache(maxsize=1)
def samples() -> tuple[Sample, ...]:
    """Return what was synthesized: the spread kept beside this module, and the boards' reports."""
    found: dict[tuple[int, str], Sample] = {}
    kept = resources.files(__package__).joinpath("synthesized.json").read_text(encoding="utf-8")
    for entry in json.loads(kept)["samples"]:
        sample = _sample(Config.from_dict(entry["fields"]), entry["family"], entry)
        found[sample.config.hash, sample.family] = sample
    from vdla.runtime.synthesis.parts import PARTS

    for report in sorted(resources.files("vdla.bitstreams").joinpath("reports").iterdir(), key=str):
        entry = json.loads(report.read_text(encoding="utf-8"))
        name = entry["config"]
        if name in PRESETS and name in PARTS:
            sample = _sample(PRESETS[name], PARTS[name].family, entry)
            found.setdefault((sample.config.hash, sample.family), sample)
    return tuple(found.values())


def _sample(config: Config, family: str, entry: dict[str, Any]) -> Sample:
    total, units = entry["total"], entry["modules"]
    pairs = {
        unit: (used["lut"], used["ff"]) if isinstance(used, dict) else (used[0], used[1])
        for unit, used in units.items()
    }
    return Sample(config, family, pairs, total["lut"], total["ff"], total["dsp"], total["bram36"])


def beyond(config: Config) -> dict[str, tuple[int, int]]:
    """Return the least and most that was synthesized of each field that a configuration exceeds."""
    found = {}
    for name in _RANGED:
        sizes = [getattr(sample.config, name) for sample in samples()]
        if not min(sizes) <= getattr(config, name) <= max(sizes):
            found[name] = (min(sizes), max(sizes))
    return found


@lru_cache(maxsize=1)
def left_out() -> dict[str, Any]:
    """Return the errors for each sample that a fit to all others makes.

    Returns
    -------
    dict
        ``samples``, and for ``lut`` and ``ff`` the ``median`` and ``worst`` of the relative error
        without its sign, and each sample's in ``all``.
    """
    every = samples()
    errors: dict[str, list[float]] = {"lut": [], "ff": []}
    for index, sample in enumerate(every):
        units = Fit([*every[:index], *every[index + 1 :]]).units(sample.config, sample.family)
        totals = [sum(pair[k] for pair in units.values()) for k in (0, 1)]
        for key, total, true in zip(errors, totals, (sample.lut, sample.ff), strict=True):
            errors[key].append(total / true - 1)
    found: dict[str, Any] = {"samples": len(every)}
    for key, values in errors.items():
        size = np.abs(values)
        found[key] = {"median": float(np.median(size)), "worst": float(size.max()), "all": values}
    return found
