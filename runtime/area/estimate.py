"""The resources of a configuration, from where they are known best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vdla.config import Config
from vdla.runtime.synthesis.parts import Resources, part_of

from .fitting import Fit, beyond, left_out, samples
from .kept import kept_report
from .structure import block_rams, dsp_slices

__all__ = ["MODEL", "YOSYS", "Area", "area"]

YOSYS, MODEL = "yosys", "model"


@dataclass(frozen=True, kw_only=True)
class Area:
    """What a configuration takes of an FPGA.

    Attributes
    ----------
    config : Config
    family : str
        yosys's name of the FPGA's family.
    source : str
        ``yosys``, where it was synthesized, or ``model``; DSP slices and block RAM are exact.
    total : Resources
    modules : dict of str to (int, int)
        LUTs and flip-flops by unit.
    """

    config: Config
    family: str
    source: str
    total: Resources
    modules: dict[str, tuple[int, int]]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it, with the model's errors."""
        found: dict[str, Any] = {
            "config": self.config.name,
            "config_hash": f"{self.config.hash:016x}",
            "family": self.family,
            "source": self.source,
            "total": self.total.to_dict(),
            "modules": {unit: {"lut": a, "ff": b} for unit, (a, b) in self.modules.items()},
        }
        if self.source == MODEL:
            errors = left_out()
            found["model_error"] = {
                "samples": errors["samples"],
                **{k: {e: errors[k][e] for e in ("median", "worst")} for k in ("lut", "ff")},
                "beyond": {name: list(ends) for name, ends in beyond(self.config).items()},
            }
        return found


def area(config: Config, family: str | None = None) -> Area:
    """Return what a configuration takes.

    LUTs and flip-flops are yosys's where the configuration was synthesized, here or for this
    package, and else those of a model of each unit, fitted to the configurations in
    ``synthesized.json``; `left_out` tells its error. DSP slices and block RAM follow from the
    gateware's multipliers and memories.

    Parameters
    ----------
    config : Config
    family : str, optional
        ``xc7`` or ``xcup``; by default that of the configuration's board.
    """
    family = part_of(config).family if family is None else family
    known = kept_report(config, family)
    units = _synthesized().get((config.hash, family)) if known is None else known
    source = MODEL if units is None else YOSYS
    if units is None:
        units = _fit().units(config, family)
    total = Resources(
        lut=sum(lut for lut, _ in units.values()),
        ff=sum(ff for _, ff in units.values()),
        dsp=dsp_slices(config),
        bram36=block_rams(config),
    )
    return Area(config=config, family=family, source=source, total=total, modules=units)


@lru_cache(maxsize=1)
def _fit() -> Fit:
    return Fit(samples())


@lru_cache(maxsize=1)
def _synthesized() -> dict[tuple[int, str], dict[str, tuple[int, int]]]:
    return {(sample.config.hash, sample.family): sample.units for sample in samples()}
