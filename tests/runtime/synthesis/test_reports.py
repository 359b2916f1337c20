"""The reports that are kept: of the configurations there are, of this gateware, within budget."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from vdla.config import PRESETS
from vdla.runtime.synthesis import PARTS, Contents, Resources

REPORTS = files("vdla.bitstreams") / "reports"
REMEDY = "run: vdla synth --config {0} -o bitstreams/reports/{0}.json"


def stored(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((REPORTS / f"{name}.json").read_text(encoding="utf-8"))
    return report


def test_every_board_has_its_report() -> None:
    kept = {entry.name for entry in REPORTS.iterdir()}
    assert kept == {f"{name}.json" for name in PARTS}


@pytest.mark.parametrize("name", PARTS)
def test_a_report_is_of_its_configuration(name: str) -> None:
    report = stored(name)
    assert report["config"] == name
    assert report["config_hash"] == f"{PRESETS[name].hash:016x}", REMEDY.format(name)
    assert report["part"] == PARTS[name].name
    assert report["tool"].startswith("Yosys ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["pynq-z1", pytest.param("ultra96", marks=pytest.mark.rtl)],  # the second in long runs alone
)
def test_a_report_is_of_this_gateware(name: str) -> None:
    pytest.importorskip(
        "amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'"
    )
    from vdla.gateware.export import to_rtlil
    from vdla.gateware.top import Top

    now, then = (
        Contents.of(to_rtlil(Top(PRESETS[name]), "vdla")).to_dict(),
        stored(name)["gateware"],
    )
    for kind in ("memory_bits", "multipliers"):  # these decide block RAM and DSP slices
        assert now[kind] == then[kind], REMEDY.format(name)
    for kind in ("register_bits", "operators"):  # a small repair need not take minutes of synthesis
        assert now[kind] == pytest.approx(then[kind], rel=0.02), REMEDY.format(name)


@pytest.mark.parametrize("name", PARTS)
def test_boards_of_equal_configuration_have_equal_reports(name: str) -> None:
    report = stored(name)
    for other in map(stored, PARTS):
        if other["config_hash"] == report["config_hash"]:
            assert other["gateware"] == report["gateware"], REMEDY.format(name)
            assert other["modules"] == report["modules"], REMEDY.format(name)


@pytest.mark.parametrize("name", PARTS)
def test_a_report_adds_up_and_fits_its_part(name: str) -> None:
    report = stored(name)
    units = (Resources(**unit) for unit in report["modules"].values())
    total = sum(units, Resources())
    assert total.to_dict() == report["total"]
    assert report["available"] == PARTS[name].has.to_dict()
    assert all(report["total"][kind] < count for kind, count in report["available"].items())


@pytest.mark.parametrize("name", PARTS)
def test_multipliers_are_those_of_the_design(name: str) -> None:
    config, modules = PRESETS[name], stored(name)["modules"]
    # Two int8 products share a DSP slice; a lane's 32x32 product takes four.
    assert modules["compute.datapath.product"]["dsp"] == config.macs_per_cycle // 2
    assert modules["compute.datapath"]["dsp"] == 4 * config.batch * config.block_out
    assert sum(unit["dsp"] for unit in modules.values()) == 128 + 64


def test_the_default_keeps_its_budget() -> None:
    total = stored("pynq-z1")["total"]
    assert total["dsp"] <= 204
    assert total["bram36"] <= 126
    assert total["lut"] <= 32_000
