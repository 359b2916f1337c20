"""Schedules that were searched before, kept beside the compiler: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from importlib import resources
from typing import Any

from vdla.config import Config

from .conv2d import Conv2d, ConvTile

__all__ = [
    "TEMPLATE_VERSION",
    "Record",
    "changed",
    "find_record",
    "read_records",
    "shape_of",
    "write_records",
]

TEMPLATE_VERSION = 1
"""Of the convolution's schedule template; records of another one are not used."""

_FOLDER = "schedules"


@dataclass(frozen=True)
class Record:
    """The best schedule that was found for one shape on one configuration.

    Attributes
    ----------
    conv : Conv2d
        As `shape_of` gives it.
    config_hash : int
    dram_latency_cycles : int
        Not part of the hash, but schedules depend on it.
    vthreads : int
    tile : ConvTile
    cycles : int
        Of the operator alone, on the cycle model.
    """

    conv: Conv2d
    config_hash: int
    dram_latency_cycles: int
    vthreads: int
    tile: ConvTile
    cycles: int


def shape_of(conv: Conv2d) -> Conv2d:
    """Return what a convolution's time depends on: neither its zero point nor its clip."""
    return replace(conv, zero_point=0, clip=(-128, 127))


def find_record(conv: Conv2d, config: Config, vthreads: int) -> Record | None:
    """Return the record of a shape that comes with the compiler, None where there is none.

    Searched at a beat a cycle, a record says nothing of a slower memory.
    """
    if config.dram_pace != (1, 1):
        return None
    return _packaged().get((shape_of(conv), config.hash, config.dram_latency_cycles, vthreads))


def write_records(records: Iterable[Record]) -> str:
    """Return records as text, a line each, in a fixed order."""
    lines = [
        json.dumps(
            {
                "operator": "conv2d",
                "template": TEMPLATE_VERSION,
                "config": f"{record.config_hash:016x}",
                "dram_latency_cycles": record.dram_latency_cycles,
                "vthreads": record.vthreads,
                "shape": changed(record.conv),
                "tile": asdict(record.tile),
                "cycles": record.cycles,
            },
            sort_keys=True,
        )
        for record in records
    ]
    return "".join(f"{line}\n" for line in sorted(lines))


def read_records(text: str) -> list[Record]:
    """Return the records of a text that fit this template."""
    found = (json.loads(line) for line in text.splitlines())
    return [_record(one) for one in found if one["template"] == TEMPLATE_VERSION]


def _record(found: Mapping[str, Any]) -> Record:
    return Record(
        conv=Conv2d(**{name: _tuples(value) for name, value in found["shape"].items()}),
        config_hash=int(found["config"], 16),
        dram_latency_cycles=found["dram_latency_cycles"],
        vthreads=found["vthreads"],
        tile=ConvTile(**found["tile"]),
        cycles=found["cycles"],
    )


def changed(conv: Conv2d) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    every = {field.name: (getattr(conv, field.name), field.default) for field in fields(conv)}
    return {name: value for name, (value, default) in every.items() if value != default}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@lru_cache(maxsize=1)
def _packaged() -> dict[tuple[Conv2d, int, int, int], Record]:
    folder = resources.files(__package__) / _FOLDER
    texts = [file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".jsonl")]
    records = [record for text in texts for record in read_records(text)]
    return {(r.conv, r.config_hash, r.dram_latency_cycles, r.vthreads): r for r in records}
