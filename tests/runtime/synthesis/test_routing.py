from __future__ import annotations

from typing import Any

import pytest

from vdla.config import PRESETS, TINY
from vdla.runtime.synthesis.routing import NOTE, reduced, timing_of


def step(kind: str, delay: float, start: str, end: str, net: str = "") -> dict[str, Any]:
    found = {"type": kind, "delay": delay, "from": {"cell": start}, "to": {"cell": end}}
    return {**found, "net": net} if net else found


INNER = "scanned.core.machine"
REPORT: dict[str, Any] = {
    "fmax": {"$glbnet$clk$TRELLIS_IO_IN": {"achieved": 81.23456, "constraint": 100}},
    "critical_paths": [
        {
            "from": "<async>",
            "to": "posedge $glbnet$clk",
            "path": [step("routing", 90, "data_in", "driving", "data_in")],
        },
        {
            "from": "posedge $glbnet$clk",
            "to": "posedge $glbnet$clk",
            "path": [
                step("clk-to-q", 0.5, f"{INNER}.fetch.a_FF", f"{INNER}.fetch.a_FF"),
                step("routing", 1.25, f"{INNER}.fetch.a_FF", "abc$0", f"{INNER}.fetch.a"),
                step("routing", 2, f"{INNER}.fetch.a_FF", "abc$1", f"{INNER}.fetch.a_LUT4"),
                step("logic", 0.25, "abc$1", "abc$1"),
                step("routing", 2, "abc$1", f"{INNER}.load_queue.b_FF", f"{INNER}.load_queue.b_DI"),
                step("setup", 0.125, f"{INNER}.load_queue.b_FF", f"{INNER}.load_queue.b_FF"),
            ],
        },
    ],
}


def test_the_longest_path_between_registers_is_told() -> None:
    timing = timing_of(TINY, REPORT).to_dict()
    assert timing["fmax_mhz"] == {"clk": 81.23}
    assert timing["critical_path"] == {
        "start": {"unit": "fetch", "cell": "core.machine.fetch.a_FF"},
        "end": {"unit": "queues", "cell": "core.machine.load_queue.b_FF"},
        "units": ["fetch", "queues"],
        "logic_ns": 0.88,  # 0.5 + 0.25 + 0.125
        "routing_ns": 5.25,
        "levels": 1,
    }
    assert timing["note"] == NOTE
    assert NOTE.startswith("This is no prediction for the xc7z020")


@pytest.mark.parametrize("name", PRESETS)
def test_a_reduced_array_is_small_and_otherwise_the_same(name: str) -> None:
    small, config = reduced(PRESETS[name]), PRESETS[name]
    assert small.macs_per_cycle == 16
    assert small.uop_bytes + small.inp_bytes + small.wgt_bytes + small.acc_bytes <= 16 << 10
    changed = {key for key, value in small.to_dict().items() if config.to_dict()[key] != value}
    shape = {"block_in", "block_out", "uop_bytes", "inp_bytes", "wgt_bytes", "acc_bytes"}
    assert changed <= {"name", *shape}
