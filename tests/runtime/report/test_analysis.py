"""What binds layers and what changes save, held to timings of the changed machine itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.networks import residual
from vdla.config import TINY, Config
from vdla.errors import InputError
from vdla.isa import Alu, AluOp, Finish, Gemm, Load, MemoryType, Opcode, Store
from vdla.program import Program
from vdla.runtime.api import compile
from vdla.runtime.report import (
    Result,
    bandwidths,
    binding,
    compare,
    of_json,
    of_timeline,
    what_ifs,
)
from vdla.runtime.trace import Timeline
from vdla.sim import cycle

SLOW = TINY.replace(dram_latency_cycles=400, name="slow")
NARROW = TINY.replace(dram_bytes_per_cycle=0.5, name="narrow")


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline.of(compile(residual(), config=TINY))


def cycles_on(timeline: Timeline, config: Config) -> int:
    """The same programs, timed by the cycle model without any of the code under test."""
    return sum(
        cycle.time(replace(program, config=config), timeline.memory()).cycles
        for program in timeline.module.programs
    )


def test_exact_savings_are_those_of_the_machine_so_changed(timeline: Timeline) -> None:
    found = {one.key: one for one in what_ifs(timeline)}
    assert found.keys() == {"bandwidth", "latency", "outstanding", "core", "alu"}  # AXI3: no burst
    for key, changes in {
        "bandwidth": {"axi_data_bits": 128},
        "latency": {"dram_latency_cycles": 1},
        "outstanding": {"axi_outstanding": 8},
    }.items():
        one = found[key]
        want = cycles_on(timeline, TINY.replace(**changes))
        assert (one.exact, one.cycles) == (True, want)
        assert one.saved == timeline.cycles - want
        assert sum(one.layers.values()) == one.saved
    order = [one.saved for one in what_ifs(timeline)]
    assert order == sorted(order, reverse=True)


def test_bounds_count_slots(timeline: Timeline) -> None:
    found = {one.key: one for one in what_ifs(timeline)}
    (part,) = timeline.parts
    columns, busy = part.result.table.columns, part.result.state.log["busy"]
    gemm = int(busy[columns["opcode"] == Opcode.GEMM].sum())
    alu = int(busy[columns["opcode"] == Opcode.ALU].sum()) + 1  # FINISH
    floor = max(timeline.counters[unit]["busy"] for unit in ("load", "store"))
    assert not found["core"].exact
    assert not found["alu"].exact
    assert found["alu"].saved == min(alu, timeline.cycles - floor)
    assert sum(found["core"].layers.values()) <= gemm / 2
    assert gemm // 2 - 8 <= found["core"].saved <= min(gemm / 2, timeline.cycles - floor)


def test_a_program_with_half_the_slots_keeps_the_bound() -> None:
    """The bound of a faster core holds for programs whose GEMMs really are half as long."""

    def program(rows: int) -> Program:
        one: list = []
        for tile in range(6):
            free = {"pop_next": True} if tile > 1 else {}
            one += [
                Load(
                    memory_type=MemoryType.INP,
                    sram_base=0,
                    dram_base=0,
                    x_size=40,
                    push_next=True,
                    **free,
                ),
                Gemm(
                    uop_begin=0,
                    uop_end=1,
                    iter_out=rows,
                    iter_in=10,
                    pop_prev=True,
                    push_prev=tile < 4,
                ),
                Alu(uop_begin=0, uop_end=1, alu_opcode=AluOp.ADD, iter_in=5, push_next=True),
                Store(sram_base=0, dram_base=0, x_size=8, pop_prev=True, push_prev=tile == 5),
            ]
        return Program.from_instructions([*one, Finish(pop_next=True)], TINY)

    for rows in (2, 8, 40):
        whole, half = cycle.time(program(rows)), cycle.time(program(rows // 2))
        assert 0 < whole.cycles - half.cycles <= 6 * rows * 10 / 2


@pytest.mark.parametrize(
    ("config", "reason"), [(SLOW, "latency"), (NARROW, "load bandwidth"), (TINY, "GEMM")]
)
def test_what_binds_a_convolution_is_what_was_made_scarce(config: Config, reason: str) -> None:
    timed = Timeline.of(compile(residual(), config=config))
    bound = binding(timed, what_ifs(timed))
    assert list(bound) == timed.layers["name"].tolist()
    assert bound["body"] == reason


def test_a_network_on_memories_of_several_speeds(timeline: Timeline) -> None:
    frame = bandwidths(timeline.module, [0.5, 8, 16])
    want = [
        cycles_on(timeline, TINY.replace(dram_bytes_per_cycle=0.5)),
        timeline.cycles,
        cycles_on(timeline, TINY.replace(axi_data_bits=128)),
    ]
    assert frame["cycles"].tolist() == want
    macs = sum(one.macs for one in timeline.module.layers if one.device == "vdla")
    assert frame["mac_utilization"].tolist() == pytest.approx([macs / (c * 16) for c in want])
    assert len(bandwidths(timeline.module)) > 6


def result(title: str, **layers: int) -> Result:
    return Result(
        title=title,
        config="tiny",
        clock_mhz=100.0,
        cycles=sum(layers.values()),
        mac_utilization=None,
        layers={
            name: {"cycles": n, "bytes": 2 * n, "mac_utilization": None}
            for name, n in layers.items()
        },
    )


def test_a_comparison_lines_layers_up_by_name() -> None:
    found = compare(result("one", stem=100, body=50), result("two", body=100, extra=7))
    table = found.layers
    assert table["name"].tolist() == ["stem", "body", "extra"]
    assert table["cycles_a"].tolist() == [100, 50, pd.NA]
    assert table["cycles_b"].tolist() == [pd.NA, 100, 7]
    assert table["ratio"].tolist()[1] == 2
    assert np.isnan(table["ratio"].tolist()[0])
    summary = json.loads(json.dumps(found.summary(), default=int))
    assert summary["ratio"] == pytest.approx(107 / 150)
    assert summary["a"]["bytes"] == 300
    assert summary["layers"][0] == {
        "name": "stem",
        "cycles_a": 100,
        "cycles_b": None,
        "bytes_a": 200,
        "bytes_b": None,
        "mac_utilization_a": None,
        "mac_utilization_b": None,
        "ratio": None,
    }


def test_strangers_are_not_compared() -> None:
    with pytest.raises(InputError, match="one and two share none: compare two results of one"):
        compare(result("one", stem=1), result("two", other=1))


def test_a_saved_run_holds_the_same_figures_as_its_timeline(tmp_path: Path) -> None:
    network = compile(residual(), config=TINY)
    image = np.zeros(network.input_shape, network.input_dtype)
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(network.run(image).summary(), default=int))
    saved, timed = of_json(path), of_timeline(Timeline.of(network), "timed")
    assert (saved.cycles, saved.config, saved.bytes) == (timed.cycles, "tiny", timed.bytes)
    assert saved.mac_utilization == pytest.approx(timed.mac_utilization, rel=1e-12)
    for name, layer in timed.layers.items():
        assert saved.layers[name]["cycles"] == layer["cycles"]
        assert saved.layers[name]["bytes"] == layer["bytes"]
        assert (saved.layers[name]["mac_utilization"] or 0) == pytest.approx(
            layer["mac_utilization"] or 0
        )


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("clock_mhz", 0, "clock_mhz is 0"),
        ("clock_mhz", "z", "a figure is 'z'"),
        ("cycles", float("nan"), "a figure is nan"),
        ("cycles", None, "a figure is None"),
    ],
)
def test_a_saved_result_has_figures(name: str, value: Any, what: str, tmp_path: Path) -> None:
    saved = {"config": "tiny", "clock_mhz": 100, "cycles": 5, "mac_utilization": 0.5, "layers": []}
    (tmp_path / "a.json").write_text(json.dumps(saved))
    assert of_json(tmp_path / "a.json").cycles == 5
    (tmp_path / "a.json").write_text(json.dumps({**saved, name: value}))
    with pytest.raises(InputError, match=f"printed, with cycles: .*: {what}; save one"):
        of_json(tmp_path / "a.json")


@pytest.mark.parametrize("text", ["{", "[]", '{"layers": [{"name": "a"}]}'])
def test_what_is_no_saved_result_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match="must be what vdla simulate MODEL --json printed"):
        of_json(tmp_path / "a.json")
