"""Vivado's script, run against a recorder that knows Vivado's commands and their options."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vdla.boards import BOARDS, ZYNQ_7000
from vdla.config import TINY, Config
from vdla.errors import ConfigError, DeviceError
from vdla.gateware.export import to_rtlil
from vdla.gateware.top import Top
from vdla.runtime.overlay.core import CORE, IP, ip_wrapper
from vdla.runtime.overlay.job import Job
from vdla.runtime.overlay.vivado_script import vivado_script
from vdla.runtime.synthesis.yosys import run_yosys


def build(folder: Path, name: str, edit: tuple[str, str] | None = None) -> None:
    """Run the script of a board with what calls itself vivado, perhaps with a text changed."""
    board = BOARDS[name]
    script = vivado_script(board, board.configuration, board.configuration.clock_mhz)
    if edit is not None:
        assert edit[0] in script
        script = script.replace(*edit)
    (folder / "vdla.v").write_text("module vdla(clk);\nendmodule\n", encoding="utf-8")
    (folder / "vdla_ip.v").write_text(ip_wrapper(board.configuration), encoding="utf-8")
    (folder / "build.tcl").write_text(script, encoding="utf-8")
    command = ["vivado", "-mode", "batch", "-source", "build.tcl"]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise AssertionError(outcome.stdout + outcome.stderr)


def facts(record: Path, kind: str) -> list[list[str]]:
    lines = [line.split() for line in record.read_text(encoding="utf-8").splitlines()]
    return [line[1:] for line in lines if line[0] == kind]


@pytest.mark.parametrize("installed", [False, True], ids=["no-board-files", "board-files"])
@pytest.mark.parametrize("name", BOARDS)
def test_the_script_makes_the_board_s_design(
    vivado: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    installed: bool,
) -> None:
    board = BOARDS[name]
    if installed:
        monkeypatch.setenv("FAKE_BOARDS", f"{board.board_part}:1.4")
        monkeypatch.setenv("FAKE_HIGH", "1")
    build(tmp_path, name)

    zynq = board.family == ZYNQ_7000
    assert [board.part] in facts(vivado, "part")
    cells = dict(facts(vivado, "cell"))
    assert cells["vdla_0"] == "vdla:user:vdla:1.0"
    assert cells["ps"] == (
        "xilinx.com:ip:processing_system7" if zynq else "xilinx.com:ip:zynq_ultra_ps_e"
    )
    assert (["ps", "apply_board_preset", "1"] in facts(vivado, "automation")) == installed
    placed = {
        segment: (int(at, 0), int(size, 0)) for _, segment, at, size in facts(vivado, "address")
    }
    assert placed["vdla_0/s_axi/reg0"] == (board.address, board.address_bytes)
    assert placed["interrupts/S_AXI/Reg"] == (board.controller_address, 0x10000)
    memory = "ps/S_AXI_HP0/HP0_DDR_LOWOCM" if zynq else "ps/SAXIGP2/HP0_DDR_LOW"
    assert placed[memory][0] == 0
    assert ("ps/SAXIGP2/HP0_DDR_HIGH" in placed) == (installed and not zynq)
    buses = [tuple(pair) for pair in facts(vivado, "bus")]
    assert (f"ps/{board.control_port}", "control/S00_AXI") in buses
    assert ("memory/M00_AXI", f"ps/{board.memory_port}") in buses
    assert ["vdla_0/interrupt", "interrupts/intr"] in facts(vivado, "net")
    for made in ("overlay.bit", "overlay.hwh", "timing.rpt", "utilization.rpt", "result.txt"):
        assert (tmp_path / made).exists()


def test_the_clock_is_asked_of_the_pll_that_boots(vivado: Path, tmp_path: Path) -> None:
    build(tmp_path, "zcu104")
    settings = {name: value for _, name, value in facts(vivado, "set")}
    assert settings["PSU__CRL_APB__PL0_REF_CTRL__SRCSEL"] == "RPLL"
    assert float(settings["PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ"]) == 300


def test_a_script_can_be_run_again(vivado: Path, tmp_path: Path) -> None:
    build(tmp_path, "pynq-z1")
    build(tmp_path, "pynq-z1")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("save_bd_design\n", "save_bd_desing\n", "invalid command name"),
        ("-norecurse", "-no_recurse", "unknown option '-no_recurse'"),
        ("make_wrapper -files", "make_wrapper -file", "unknown option '-file'"),
        (
            "connect_bd_net {*}$objects",
            "if {[llength $objects] > 2} {connect_bd_net {*}$objects}",
            "is not connected",
        ),
        ("vdla_0/rst", "vdla_0/reset", "has no pin reset"),
        (
            "reset/peripheral_reset vdla_0",
            "reset/peripheral_reset reset/mb_reset vdla_0",
            "one driver",
        ),
        ("NUM_MI 2", "NUM_MI 1", "has no bus M01_AXI"),
        ("0x41800000", "0x43C00000", "overlaps"),
        ("set address_bytes {0x10000}", "set address_bytes {0x20000}", "more than s_axi has"),
        ("PCW_USE_M_AXI_GP0", "PCW_USE_M_AXI_GPO", "has no parameter PCW_USE_M_AXI_GPO"),
        ("set vlnv {vdla:user:vdla:1.0}", "set vlnv {vdla:user:vdla:1.1}", "in the catalog"),
        ("make_external {FIXED_IO, DDR}", "make_external {FIXED_IO}", "ps/DDR is not connected"),
    ],
)
def test_the_recorder_notices(vivado: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        build(tmp_path, "pynq-z1", (old, new))


def test_interfaces_are_those_of_the_configuration() -> None:
    text = ip_wrapper(BOARDS["pynq-z1"].configuration)
    assert "XIL_INTERFACENAME m_axi, PROTOCOL AXI3, DATA_WIDTH 64, ADDR_WIDTH 32," in text
    assert "input wire [15:0] s_axi_araddr" in text
    assert ".s_axi_araddr(s_axi_araddr[11:0])" in text
    assert "trace_" not in text
    text = ip_wrapper(BOARDS["zcu104"].configuration)
    assert "XIL_INTERFACENAME m_axi, PROTOCOL AXI4, DATA_WIDTH 128, ADDR_WIDTH 40," in text
    assert "output wire [7:0] m_axi_arlen" in text


@pytest.mark.parametrize(
    "config",
    [TINY, TINY.replace(axi_version=4, axi_data_bits=128, axi_burst_beats=64)],
    ids=["axi3", "axi4"],
)
def test_the_core_fits_the_gateware_pin_by_pin(tmp_path: Path, config: Config) -> None:
    pytest.importorskip("pyosys", reason="needs yosys; install it with: pip install 'vdla[hw]'")
    (tmp_path / "vdla.il").write_text(to_rtlil(Top(config), CORE), encoding="utf-8")
    (tmp_path / "vdla_ip.v").write_text(ip_wrapper(config), encoding="utf-8")
    script = [
        "logger -werror Resizing -werror implicitly",  # what it says of pins of other widths
        "read_rtlil vdla.il",
        "read_verilog vdla_ip.v",
        f"hierarchy -check -top {IP}",
        "proc",
        "check -assert",
    ]
    run_yosys(script, tmp_path)
    edited = ip_wrapper(config).replace(
        ".m_axi_rdata(m_axi_rdata)", ".m_axi_rdata(m_axi_rdata[7:0])"
    )
    (tmp_path / "vdla_ip.v").write_text(edited, encoding="utf-8")
    with pytest.raises(DeviceError, match="Resizing cell port"):
        run_yosys(script, tmp_path)


def test_a_configuration_must_fit_the_board_s_ports(tmp_path: Path) -> None:
    Job(BOARDS["pynq-z1"], TINY, 100.0, tmp_path)
    with pytest.raises(DeviceError) as error:
        Job(BOARDS["kv260"], TINY, 100.0, tmp_path)
    assert str(error.value) == (
        "A configuration for kv260 must have axi_version 4, as its port S_AXI_HP0_FPD has, not 3: "
        "use --config kv260, or change it"
    )
    with pytest.raises(ConfigError, match="A PL clock of pynq-z1"):
        Job(BOARDS["pynq-z1"], TINY, 130.0, tmp_path)
