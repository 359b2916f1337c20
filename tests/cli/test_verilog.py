from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vdla.config import TINY, Config

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

AXI3_READ_ADDRESS = {"addr": 32, "len": 4, "size": 3, "burst": 2, "valid": 1, "ready": 1}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verilog") / "new" / "folder"


def test_verilog_has_plain_axi_ports(vdla_command: Any, written: Path) -> None:
    outcome = vdla_command("verilog", "--config", "TINY", "-o", str(written), "--json")
    report = json.loads(outcome.out)
    assert report["config_hash"] == f"{TINY.hash:016x}"
    assert [Path(name).name for name in report["files"]] == ["vdla.v", "vdla.il", "vdla.toml"]
    assert Config.from_toml(written / "vdla.toml") == TINY
    text = (written / "vdla.v").read_text()
    top = text[text.index("module vdla(") :].partition("endmodule")[0]
    declared = re.findall(r"^  (?:in|out)put (?:\[(\d+):0\] )?(\w+);", top, re.MULTILINE)
    widths = {name: int(high or 0) + 1 for high, name in declared}
    assert {name: widths[f"m_axi_ar{name}"] for name in AXI3_READ_ADDRESS} == AXI3_READ_ADDRESS
    assert widths["m_axi_wdata"] == TINY.axi_data_bits
    assert {"clk", "rst", "interrupt", "s_axi_awaddr", "s_axi_rdata"} <= widths.keys()
    assert not [name for name in widths if "__" in name]


def test_rtlil_has_the_same_top(written: Path) -> None:
    text = (written / "vdla.il").read_text()
    assert "module \\vdla\n" in text
    assert "wire width 64 input" in text
    assert "\\m_axi_rdata" in text


def test_files_hold_no_path_of_this_machine(written: Path) -> None:
    here = str(Path(__file__).resolve().parents[2])
    for path in written.iterdir():
        assert here not in path.read_text()
