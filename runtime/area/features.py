"""What each unit of the gateware grows with, for the model of LUTs and flip-flops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2

from vdla.config import Config

from .structure import multipliers, queue_in_luts

__all__ = ["FIXED", "GROWN", "ULTRASCALE", "fixed", "grown"]

ULTRASCALE = "xcup"
"""yosys's family of the parts whose multipliers' registers stay in the fabric."""

Feature = Callable[[Config, str], float]


def _one(config: Config, family: str) -> float:
    return 1.0


def _lanes(config: Config, family: str) -> float:
    return config.batch * config.block_out


def _depth(config: Config, family: str) -> float:
    """Registers of the adder tree, along which a slot's fields are kept."""
    return log2(config.block_in) if config.block_in > 1 else 0.0


def _acc_bits(config: Config, family: str) -> float:
    return 8 * config.acc_elem_bytes


def _load_bits(config: Config, family: str) -> float:
    return 8 * max(config.inp_elem_bytes, config.wgt_elem_bytes)


def _out_bits(config: Config, family: str) -> float:
    return 8 * config.out_elem_bytes


def _index_bits(config: Config, family: str) -> float:
    return config.dst_index_bits + config.src_index_bits + config.wgt_index_bits


def _uop_index_bits(config: Config, family: str) -> float:
    return config.uop_index_bits


def _bus_bits(config: Config, family: str) -> float:
    return config.axi_data_bits


def _load_shuffle(config: Config, family: str) -> float:
    """Bits of an element times the ways that beats of a wide bus can fall into it."""
    return _load_bits(config, family) * max(0.0, log2(config.axi_data_bits / 64))


def _acc_shuffle(config: Config, family: str) -> float:
    return _acc_bits(config, family) * max(0.0, log2(config.axi_data_bits / 64))


def _narrow_out(config: Config, family: str) -> float:
    """Whether several elements of OUT share a beat."""
    return max(0.0, log2(config.axi_bytes / config.out_elem_bytes))


def _axi4(config: Config, family: str) -> float:
    return float(config.axi_version == 4)


def _slots(config: Config, family: str) -> float:
    """Beats that wait for load, or for compute's loader, in distributed RAM."""
    return config.axi_outstanding * config.axi_burst_beats * config.axi_data_bits / 64


def _queue_rams(config: Config, family: str) -> float:
    """Pieces of 32 entries of each command queue in distributed RAM."""
    return max(1, config.command_queue_depth / 32) if queue_in_luts(config) else 0.0


def _fabric_lanes(config: Config, family: str) -> float:
    return _lanes(config, family) if family == ULTRASCALE else 0.0


Pair = tuple[tuple[Feature, ...], tuple[Feature, ...]]


def _both(*features: Feature) -> Pair:
    return features, features


GROWN: Mapping[str, Pair] = {
    "arbiter": _both(_one, _axi4),
    "compute": _both(_one, _acc_bits),
    # A slot's fields are registers along the adder tree, and take no LUTs there.
    "compute.datapath": ((_one, _lanes, _fabric_lanes), (_one, _lanes, _depth, _fabric_lanes)),
    "compute.issue": _both(_one, _index_bits),
    "compute.loader": _both(_one, _acc_bits, _acc_shuffle, _slots),
    "compute.sequencer": _both(_one, _uop_index_bits),
    "control": _both(_one),
    "fetch": _both(_one, _bus_bits),
    "load": _both(_one, _load_bits, _load_shuffle, _slots),
    "machine": _both(_one),
    "queues": _both(_one, _queue_rams),
    "store": _both(_one, _out_bits, _narrow_out, _bus_bits),
}
"""What a unit's LUTs, and its flip-flops, are a weighted sum of; the weights are fitted."""


def grown(unit: str, config: Config, family: str) -> tuple[list[float], list[float]]:
    """Return the features of a unit, for its LUTs and for its flip-flops."""
    luts, ffs = GROWN[unit]
    return [f(config, family) for f in luts], [f(config, family) for f in ffs]


def _tree_bits(config: Config) -> tuple[int, int]:
    """Return the bits of one adder tree's registers, and its adders."""
    bits = adders = 0
    terms, width = config.block_in, 16
    while terms > 1:
        terms, width = terms // 2, width + 1
        bits, adders = bits + terms * width, adders + terms
    return bits, adders


def _product(config: Config, family: str) -> tuple[float, float]:
    """LUTs and flip-flops of the core: its trees, and on UltraScale its operands' registers."""
    bits, adders = _tree_bits(config)
    trees = config.batch * config.block_out
    fabric = multipliers(config) if family == ULTRASCALE else 0
    return trees * max(0, bits - adders + 1) + 10 * fabric, trees * bits + 82 * fabric


def _datapath(config: Config, family: str) -> tuple[float, float]:
    """Two registers behind INP and WGT."""
    return 0.0, 16.0 * (config.inp_elem_bytes + config.wgt_elem_bytes)


def _load(config: Config, family: str) -> tuple[float, float]:
    """An element being put together, and one being written."""
    return 0.0, 2 * _load_bits(config, family)


def _loader(config: Config, family: str) -> tuple[float, float]:
    return 0.0, 2 * _acc_bits(config, family)


FIXED: Mapping[str, Callable[[Config, str], tuple[float, float]]] = {
    "compute.datapath": _datapath,
    "compute.datapath.product": _product,
    "compute.loader": _loader,
    "load": _load,
}
"""LUTs and flip-flops that follow from the gateware's text, without any fit."""


def fixed(unit: str, config: Config, family: str) -> tuple[float, float]:
    """Return the LUTs and flip-flops of a unit that are known."""
    return FIXED[unit](config, family) if unit in FIXED else (0.0, 0.0)
