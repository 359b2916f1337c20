"""The area model against what yosys counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vdla.config import PYNQ_Z1, TINY, ULTRA96, ZCU104, Config
from vdla.runtime.area import (
    ENERGY,
    area,
    block_rams,
    boards_for,
    dsp_slices,
    energy_mj,
    left_out,
)
from vdla.runtime.area.collect import gathered
from vdla.runtime.area.features import GROWN
from vdla.runtime.area.fitting import Fit, samples
from vdla.runtime.area.kept import keep_report
from vdla.runtime.synthesis import Contents, Report, Resources, part_of

PAGE = Path(__file__).parents[3] / "docs" / "sweeps.md"
SAMPLES = {f"{s.family}-{s.config.hash:016x}": s for s in samples()}


@pytest.mark.parametrize("name", SAMPLES)
def test_dsp_slices_and_block_ram_are_yosys_s(name: str) -> None:
    sample = SAMPLES[name]
    assert dsp_slices(sample.config) == sample.dsp
    assert block_rams(sample.config) == sample.bram36


@pytest.mark.parametrize("name", SAMPLES)
def test_units_add_up_and_are_known(name: str) -> None:
    sample = SAMPLES[name]
    assert {*GROWN, "compute.datapath.product"} == set(sample.units)
    assert sum(lut for lut, _ in sample.units.values()) == sample.lut
    assert sum(ff for _, ff in sample.units.values()) == sample.ff


@pytest.mark.parametrize(
    ("width_and_depth", "expected"),
    [  # counted by yosys 0.70 for memories alone; xcup gives the same where it was asked
        ((32, 16), 0.5),
        ((32, 512), 0.5),
        ((32, 1024), 1),
        ((32, 8192), 8),
        ((64, 512), 1),
        ((64, 1024), 2),
        ((64, 4096), 8),
        ((144, 128), 2),
        ((256, 1024), 7.5),
        ((512, 256), 7.5),
        ((2048, 64), 28.5),
        ((4096, 256), 57),
    ],
)
def test_memories(width_and_depth: tuple[int, int], expected: float) -> None:
    from vdla.runtime.area.structure import _block_rams

    assert _block_rams(*width_and_depth) == expected


def test_a_fit_to_all_others_is_near() -> None:
    errors = left_out()
    assert errors["lut"]["median"] <= 0.05
    assert errors["lut"]["worst"] <= 0.15
    assert errors["ff"]["median"] <= 0.02
    assert errors["ff"]["worst"] <= 0.10


def test_the_page_states_these_errors() -> None:
    errors, page = left_out(), " ".join(PAGE.read_text("utf-8").split())
    lut, ff = (
        " ".join(
            f"{100 * errors[kind][which]:.1f} %{words}"
            for which, words in zip(("median", "worst"), after, strict=True)
        )
        for kind, after in (("lut", (" in the median and", " at worst")), ("ff", (" and", "")))
    )
    assert f"For the {errors['samples']} configurations there" in page
    assert f"it is {lut} for LUTs, {ff} for flip-flops." in page


def test_the_core_is_known_without_a_fit() -> None:
    for sample in samples():
        found = Fit(samples()).units(sample.config, sample.family)["compute.datapath.product"]
        lut, ff = sample.units["compute.datapath.product"]
        assert found[1] == ff
        assert abs(found[0] - lut) <= 0.02 * lut


def test_what_was_synthesized_is_not_modelled() -> None:
    known = area(PYNQ_Z1)
    assert known.source == "yosys"
    assert (known.total.lut, known.total.ff, known.total.dsp) == (29_436, 30_170, 192)
    assert area(PYNQ_Z1.replace(clock_mhz=125.0, dram_latency_cycles=50)) == area(
        PYNQ_Z1.replace(clock_mhz=125.0, dram_latency_cycles=50)
    )
    assert area(PYNQ_Z1.replace(clock_mhz=125.0)).source == "yosys"  # the same gateware
    modelled = area(PYNQ_Z1.replace(block_in=8, wgt_bytes=128 << 10, inp_bytes=16 << 10))
    assert modelled.source == "model"
    assert modelled.to_dict()["model_error"]["samples"] == len(samples())
    assert modelled.to_dict()["model_error"]["beyond"] == {}
    far = area(PYNQ_Z1.replace(batch=16, acc_bytes=1 << 20, inp_bytes=1 << 19))
    beyond = far.to_dict()["model_error"]["beyond"]
    assert beyond["batch"] == [1, max(sample.config.batch for sample in samples())]


def test_a_report_of_this_machine_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VDLA_CACHE", str(tmp_path))
    config = TINY.replace(token_queue_depth=64)
    units = {unit: Resources(lut=10, ff=20) for unit in (*GROWN, "compute.datapath.product")}
    before = area(config)
    keep_report(
        Report(
            config=config,
            part=part_of(config),
            tool="Yosys 0.70",
            contents=Contents(0, 0, 0, 0),
            total=Resources(),
            modules=units,
        )
    )
    assert before.source == "model"
    assert area(config).source == "yosys"
    assert area(config).total.lut == 10 * len(units)
    assert area(config).total.dsp == before.total.dsp


def test_boards() -> None:
    fits = {room.board: room.fits for room in boards_for(PYNQ_Z1)}
    assert fits["pynq-z1"]
    assert fits["zcu104"]
    wide = PYNQ_Z1.replace(block_out=32, wgt_bytes=512 << 10, acc_bytes=256 << 10)
    rooms = {room.board: room for room in boards_for(wide)}
    assert not rooms["pynq-z1"].fits  # 384 of 220 DSP slices
    assert rooms["pynq-z1"].shares["dsp"] == pytest.approx(384 / 220)
    assert rooms["zcu104"].fits
    assert area(ULTRA96).total == area(ZCU104).total


def test_energy_grows_with_what_is_done_and_has_sources() -> None:
    one = energy_mj(PYNQ_Z1, macs=256, dram_bytes=0)
    # 256 multiplications and additions; 16 B of 32 KiB, 256 B of 256 KiB, 128 B of 128 KiB.
    low, high = 2.5, 12.5
    by_size = {k: low * (high / low) ** (k / 5) for k in (2, 3)}  # powers of two from 32 KiB
    expected = 256 * 0.3 + 16 * 2.5 + 256 * by_size[3] + 128 * by_size[2]
    assert one == pytest.approx(expected * 1e-9)
    assert energy_mj(PYNQ_Z1, macs=256, dram_bytes=100) > one + 100 * 162.5e-9
    for entry in ENERGY["picojoules"].values():
        assert entry["source"].split(",")[0] in ENERGY["sources"]
        assert set(entry["repeated"]) <= set(ENERGY["sources"])
        assert len(entry["repeated"]) >= 2
    assert "not of any FPGA" in ENERGY["label"]


@pytest.mark.parametrize(("name", "entry"), ENERGY["picojoules"].items())
def test_an_energy_is_what_its_source_states(name: str, entry: dict[str, Any]) -> None:
    stated = entry["stated"]
    picojoules = float(stated.split()[0]) * (1000 if " nJ" in stated else 1)
    assert entry["value"] == picojoules / (8 if "64 bits" in stated else 1)
    assert ("64 bits" in stated) == ("byte" in name)


def test_reports_are_gathered_in_few_lines(tmp_path: Path) -> None:
    report = {
        "tool": "Yosys 0.70",
        "total": {"lut": 1, "ff": 2, "dsp": 3, "bram36": 4},
        "modules": {"load": {"lut": 1, "ff": 2, "dsp": 0, "bram36": 0}},
    }
    (tmp_path / "00.json").write_text(
        json.dumps({"fields": TINY.to_dict(), "report": report}), encoding="utf-8"
    )
    (entry,) = json.loads(gathered(tmp_path))["samples"]
    assert Config.from_dict(entry["fields"]) == TINY
    assert entry["modules"] == {"load": [1, 2]}
    assert "clock_mhz" not in entry["fields"]
