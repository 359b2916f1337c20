"""From yosys's count of cells to resources by unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vdla.errors import DeviceError

from .parts import Resources

__all__ = ["TOP", "UNITS", "tally", "unit_of"]

TOP = "vdla"
_MACHINE = "core.machine"
_REST = "machine"
_COMMANDS = ("load_queue", "compute_queue", "store_queue")
_TOKENS = (
    "tokens_load_compute",
    "tokens_compute_load",
    "tokens_compute_store",
    "tokens_store_compute",
)
_INNER = (
    "arbiter",
    "fetch",
    "load",
    "compute",
    "compute.loader",
    "compute.sequencer",
    "compute.issue",
    "compute.datapath",
    "compute.datapath.product",
    "store",
)

UNITS: Mapping[str, str] = (
    {"control": "control"}
    | {f"{_MACHINE}.{name}": name for name in _INNER}
    | {f"{_MACHINE}.{name}": "queues" for name in (*_COMMANDS, *_TOKENS)}
)
"""Modules below the top that synthesis keeps apart, each with the row it counts in.

All else is flattened into the nearest of them; what none holds (the scratchpads INP, WGT and OUT,
the retirement of loads and stores) counts as ``machine``.
"""

_LUTS = {f"LUT{inputs}": 1 for inputs in range(1, 7)} | {
    "INV": 1,  # yosys's name for a LUT1 that inverts
    "SRL16E": 1,
    "SRLC32E": 1,
    "RAM32X1S": 1,
    "RAM64X1S": 1,
    "RAM128X1S": 2,
    "RAM256X1S": 4,
    "RAM512X1S": 8,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
    "RAM32X16DR8": 8,
    "RAM64X8SW": 8,
}
"""LUTs that a cell takes; distributed memory and shift registers are made of them."""
_FREE = {"CARRY4", "CARRY8", "MUXF7", "MUXF8", "MUXF9", "BUFG", "$scopeinfo"}
"""Cells that take none of the resources counted: a slice has them beside its LUTs."""


def unit_of(path: str) -> str:
    """Return the row that a dotted path below the top counts in."""
    while path and path not in UNITS:
        path = path.rpartition(".")[0]
    return UNITS.get(path, _REST)


def tally(stat: Mapping[str, Any]) -> dict[str, Resources]:
    """Return resources by unit from what yosys's ``stat -json`` prints.

    Each module counts once for every instance; instances are found from the top down.

    Raises
    ------
    DeviceError
        There is a cell of a kind whose resources are not known.
    """
    cells = {
        name.lstrip("\\"): module["num_cells_by_type"] for name, module in stat["modules"].items()
    }
    units: dict[str, Resources] = {}
    for module in _instances(cells, TOP):
        unit = unit_of(module.removeprefix(TOP).lstrip("."))
        own = (_cell(kind, count) for kind, count in cells[module].items() if kind not in cells)
        units[unit] = sum(own, units.get(unit, Resources()))
    return dict(sorted(units.items()))


def _instances(cells: Mapping[str, Mapping[str, int]], module: str) -> Iterator[str]:
    yield module
    for kind, count in cells[module].items():
        if kind in cells:
            for _ in range(count):
                yield from _instances(cells, kind)


def _cell(kind: str, count: int) -> Resources:
    if kind in _LUTS:
        return Resources(lut=_LUTS[kind] * count)
    if kind.startswith(("FD", "LD")):
        return Resources(ff=count)
    if kind.startswith("DSP48"):
        return Resources(dsp=count)
    if kind.startswith("RAMB36"):
        return Resources(bram36=count)
    if kind.startswith("RAMB18"):
        return Resources(bram36=count / 2)
    if kind not in _FREE:
        raise DeviceError(
            f"A cell that synthesis leaves must be one whose resources are known, not {kind!r}: "
            f"add it to {__name__}"
        )
    return Resources()
