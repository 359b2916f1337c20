"""Energy, as a model with published costs: a way to compare designs, no prediction of a board.

The costs are in ``energy.json``, each with what its source states and who repeats it.
"""

from __future__ import annotations

import json
from importlib import resources
from math import log2
from typing import Any

from vdla.config import Config

__all__ = ["ENERGY", "energy_mj"]

ENERGY: dict[str, Any] = json.loads(
    resources.files(__package__).joinpath("energy.json").read_text(encoding="utf-8")
)
"""The costs in picojoules, what they hold for, and where they are from."""

_KIB = (8, 32, 1024)


def energy_mj(config: Config, *, macs: int, dram_bytes: int) -> float:
    """Return the modelled energy of a run in millijoules.

    Each multiply-accumulate costs a multiplication and an addition. Products are made a matrix at
    a time: each reads an entry of INP and of WGT and reads and writes one of ACC, at a cost a byte
    that grows with the buffer; every byte of DRAM is written to or read from a buffer as well.
    Control, the processor and idle time cost nothing.

    Parameters
    ----------
    config : Config
    macs : int
        Multiply-accumulates on the accelerator.
    dram_bytes : int
        Bytes that it reads and writes.
    """
    cost = {name: entry["value"] for name, entry in ENERGY["picojoules"].items()}
    products = macs / config.macs_per_cycle
    moved = (
        config.inp_elem_bytes * _sram(config.inp_bytes, cost)
        + config.wgt_elem_bytes * _sram(config.wgt_bytes, cost)
        + 2 * config.acc_elem_bytes * _sram(config.acc_bytes, cost)
    )
    picojoules = macs * (cost["multiply_int8"] + cost["add_int32"]) + products * moved
    picojoules += dram_bytes * (cost["dram_byte"] + _sram(config.wgt_bytes, cost))
    return float(picojoules * 1e-9)


def _sram(size: int, cost: dict[str, float]) -> float:
    """Return picojoules a byte of a buffer, on a line through logarithms of the table's sizes."""
    kib = min(max(size / 1024, _KIB[0]), _KIB[-1])
    lower, upper = (_KIB[0], _KIB[1]) if kib <= _KIB[1] else (_KIB[1], _KIB[2])
    low, high = (log2(cost[f"sram_byte_{k}_kib"]) for k in (lower, upper))
    part = log2(kib / lower) / log2(upper / lower)
    return float(2 ** (low + part * (high - low)))
