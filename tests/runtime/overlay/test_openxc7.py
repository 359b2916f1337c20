"""The flow of open tools: fakes of them for the command, the real yosys for the wiring."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.runtime.overlay.conftest import program
from vdla.bitstreams import read
from vdla.boards import BOARDS
from vdla.config import PYNQ_Z1, TINY
from vdla.runtime.cli.app import app
from vdla.runtime.overlay import openxc7

PART = "xc7z020clg400-1"

# Each takes exactly the options that the real one needs, in any order, and does least.
YOSYS = """#!/bin/sh
if [ "$1" = -V ]; then echo "Yosys 0.44"; exit 0; fi
[ "$*" = "-q -l yosys.log overlay.ys" ] || { echo "ERROR: yosys $*"; exit 1; }
grep -q "^read_rtlil overlay.il$" overlay.ys && [ -f overlay.il ] || exit 1
echo "cells" > yosys.log
echo "{}" > overlay.json
"""
NEXTPNR = """#!/bin/sh
if [ "$1" = --version ]; then echo "nextpnr-xilinx 0.8.2" >&2; exit 0; fi
while [ $# -gt 0 ]; do
    case "$1" in
        --chipdb|--xdc|--json) [ -f "$2" ] || { echo "ERROR: no file $2"; exit 1; }; shift 2;;
        --fasm) fasm=$2; shift 2;;
        --freq) freq=$2; shift 2;;
        --log) log=$2; shift 2;;
        --timing-allow-fail) shift;;
        *) echo "ERROR: nextpnr $1"; exit 1;;
    esac
done
if [ -n "$FAKE_UNROUTABLE" ]; then echo "ERROR: Unable to route"; exit 1; fi
echo "Info: Max frequency for clock 'clk': 60.00 MHz (FAIL at $freq MHz)" > "$log"
echo "Info: Max frequency for clock                'clk': ${FAKE_MHZ:-104.17} MHz" >> "$log"
echo "features" > "$fasm"
"""
FRAMES = f"""#!/bin/sh
[ "$1 $2 $3" = "--part {PART} --db-root" ] && [ -d "$4/{PART}" ] || exit 1
[ "$5" = overlay.fasm ] || exit 1
echo frames
"""
BITS = f"""#!/bin/sh
[ "$1 $3 $4" = "--part_file --part_name {PART}" ] || exit 1
[ "$5 $6 $7" = "--frm_file overlay.frames --output_file" ] || exit 1
[ -f "$2" ] && grep -q frames overlay.frames && echo bits > "$8"
"""
TOOLS = {"yosys": YOSYS, "nextpnr-xilinx": NEXTPNR, "fasm2frames": FRAMES, "xc7frames2bit": BITS}


def vdla(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["bitstream", "--flow", "openxc7", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def no_gateware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the gateware out, which takes long to make; the fakes do not read it."""
    monkeypatch.setattr(openxc7, "design_rtlil", lambda *_: "# nothing\n")


@pytest.fixture
def open_tools(
    no_gateware: None, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Every tool, and its databases in the folder that is returned."""
    for name, text in TOOLS.items():
        program(tools, name, text)
    folder = tmp_path / "data bases"
    (folder / "chips").mkdir(parents=True)
    (folder / "chips/xc7z020.bin").touch()
    (folder / "xray/zynq7" / PART).mkdir(parents=True)
    (folder / "xray/zynq7" / PART / "part.yaml").touch()
    monkeypatch.setenv("CHIPDB", str(folder / "chips"))
    monkeypatch.setenv("PRJXRAY_DB_DIR", str(folder / "xray"))
    return folder


def test_an_overlay_is_built(open_tools: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made here"
    code, out, err = vdla("--board", "pynq-z2", "-o", folder)
    assert (code, err) == (0, "")
    # 1000/100 - 1000/104.17: the frequency after routing counts, not the estimate before.
    assert out.splitlines()[-1] == (
        "pynq-z2, configuration pynq-z2: 100 MHz met, 0.400 ns to spare"
    )
    manifest = read(folder)
    assert (manifest.tool, manifest.tool_version) == ("openXC7", "Yosys 0.44 nextpnr-xilinx 0.8.2")
    assert manifest.bit.read_text(encoding="utf-8") == "bits\n"
    hwh = manifest.hwh.read_text(encoding="utf-8")
    assert 'INSTANCE="vdla_0"' in hwh
    assert "axi_intc" not in hwh


def test_failed_timing_is_no_overlay(
    open_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MHZ", "62.5")
    code, _, err = vdla("--board", "pynq-z1", "-o", tmp_path / "a")
    assert code == 2
    assert err == (
        "vdla: An overlay's timing must be met, and at 100 MHz its worst slack is -6.000 ns, which "
        f"allows 62.5 MHz: build for a lower clock, --clock 50 ({tmp_path / 'a/build/nextpnr.log'})"
        "\n"
    )
    assert not (tmp_path / "a/manifest.json").exists()
    assert vdla("--board", "pynq-z1", "-o", tmp_path / "a", "--clock", "50")[0] == 0


def test_a_failure_leaves_the_last_overlay_whole(
    open_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vdla("--board", "pynq-z1", "-o", tmp_path / "a")[0] == 0
    before = read(tmp_path / "a")
    monkeypatch.setenv("FAKE_UNROUTABLE", "1")
    code, _, err = vdla("--board", "pynq-z1", "-o", tmp_path / "a")
    assert code == 2
    assert err == (
        "vdla: openXC7 must end well, not with status 1: ERROR: Unable to route (all that it said: "
        f"{tmp_path / 'a/build/console.log'})\n"
    )
    assert read(tmp_path / "a") == before


def test_the_files_can_be_built_elsewhere(open_tools: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    code, out, _ = vdla("--board", "pynq-z1", "-o", folder, "--script-only", "--json")
    assert code == 0
    command = json.loads(out)["command"]
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert vdla("--board", "pynq-z1", "-o", folder, "--collect")[0] == 0
    assert read(folder).tool == "openXC7"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (
            "nextpnr-xilinx",
            "openXC7 0.8.2 (yosys, nextpnr-xilinx, fasm2frames, xc7frames2bit) must be on PATH, "
            "and nextpnr-xilinx is not: install it and put it on PATH, or write the files to build "
            "on another machine with --script-only",
        ),
        (
            "CHIPDB",
            "openXC7's environment must set CHIPDB, and does not: run its own set-up first, or "
            "write the files to build on another machine with --script-only",
        ),
        (
            "database",
            "PRJXRAY_DB_DIR must name a folder with zynq7/xc7z020clg400-1, and {xray} has none: "
            "make or install the database of xc7z020clg400-1",
        ),
    ],
)
def test_what_is_missing_is_named(
    open_tools: Path,
    tools: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    said: str,
) -> None:
    if missing == "CHIPDB":
        monkeypatch.delenv("CHIPDB")
    elif missing == "database":
        (open_tools / "xray/zynq7" / PART / "part.yaml").unlink()
        (open_tools / "xray/zynq7" / PART).rmdir()
    else:
        (tools / missing).unlink()
    code, out, err = vdla("--board", "pynq-z1", "-o", tmp_path / "a")
    assert (code, out) == (2, "")
    assert err == f"vdla: {said.format(xray=open_tools / 'xray')}\n"
    assert not (tmp_path / "a").exists()


def test_other_families_are_refused(open_tools: Path, tmp_path: Path) -> None:
    code, _, err = vdla("--board", "kv260", "-o", tmp_path / "a")
    assert code == 2
    assert err == (
        "vdla: openXC7 must get a board with a Zynq-7000, pynq-z1 or pynq-z2, not kv260: use "
        "--flow vivado\n"
    )


# The real design, of the small array, through the real yosys.

CELLS = ["read_verilog -lib +/xilinx/cells_sim.v", "read_verilog -lib +/xilinx/cells_xtra.v"]


@pytest.fixture(scope="module")
def yosys(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Run yosys after the design is read; the folder it works in."""
    pytest.importorskip("pyosys", reason="needs yosys; install it with: pip install 'vdla[hw]'")
    from vdla.runtime.synthesis.yosys import run_yosys

    folder = tmp_path_factory.mktemp("design")
    board = BOARDS["pynq-z1"]
    design = openxc7.design_rtlil(TINY, board)
    (folder / "overlay.il").write_text(design, encoding="utf-8")

    def run(*script: str) -> Path:
        run_yosys([*CELLS, "read_rtlil overlay.il", *script], folder)
        return folder

    return run


def primitive(name: str) -> str:
    """Return a module of yosys's library."""
    library = Path(importlib.import_module("pyosys").__file__ or "").parent / "share/xilinx"
    for source in ("cells_xtra.v", "cells_sim.v"):
        text = (library / source).read_text(encoding="utf-8")
        found = re.search(rf"^module {name} ?\(.*?^endmodule\n", text, re.MULTILINE | re.DOTALL)
        if found is not None:
            return found[0]
    raise AssertionError(name)


def test_every_pin_of_the_wiring_is_the_primitive_s(yosys: Callable[..., Path]) -> None:
    """Names against yosys's own library, loops and undriven wires; then where the pins lead."""
    checks = ("hierarchy -check -top overlay", "proc", "check -assert", "select overlay")
    folder = yosys(*checks, "write_json -selected overlay.json")
    design = json.loads((folder / "overlay.json").read_text(encoding="utf-8"))
    module = design["modules"]["overlay"]
    cells = {cell["type"]: cell for cell in module["cells"].values()}
    processor = cells["PS7"]["connections"]
    bits = {name: value["bits"] for name, value in module["netnames"].items()}
    assert processor["MAXIGP0ACLK"] == processor["SAXIHP0ACLK"] == bits["clk"]
    assert cells["BUFG"]["connections"] == {"I": [processor["FCLKCLK"][0]], "O": bits["clk"]}
    declared = re.findall(r"(?:input|output) (?:\[(\d+):0\] )?(\w+);", primitive("PS7"))
    widths = {pin: int(left or 0) + 1 for left, pin in declared}
    assert {pin: widths[pin] for pin in processor} == {
        pin: len(processor[pin]) for pin in processor
    }
    assert processor["IRQF2P"][1:] == ["0"] * 19
    # Nothing floats but the data of ports that are held without a clock.
    inputs = set(re.findall(r"input (?:\[\d+:0\] )?(\w+);", primitive("PS7")))
    still = tuple(pin.removesuffix("ACLK") for pin, wires in processor.items() if wires == ["0"])
    assert {pin for pin in inputs - set(processor) if not pin.startswith(still)} == set()
    assert processor["EMIOSDIO0CDN"] == ["0"]
    assert processor["DDRARB"] == ["0"] * 4
    for pin in ("MAXIGP0AWVALID", "MAXIGP0RREADY", "SAXIHP0AWREADY", "SAXIHP0RVALID"):
        assert processor[pin][0] not in ("0", "1", "x")


@pytest.mark.rtl
def test_verilator_finds_nothing_in_the_wiring(yosys: Callable[..., Path], tmp_path: Path) -> None:
    from vdla.runtime.rtl.toolchain import find_toolchain, run_tool

    folder = yosys("hierarchy -check -top overlay", "write_verilog -noattr overlay.v")
    (folder / "stubs.v").write_text(primitive("PS7") + primitive("BUFG"), encoding="utf-8")
    tools = find_toolchain()
    command = [str(tools.verilator), "--lint-only", "-Wno-lint", "-Wno-style", "-Wno-SPECIFYIGN"]
    command += ["--top-module", "overlay", *(f"-Wwarn-{name}" for name in HEEDED)]
    run_tool([*command, str(folder / "overlay.v"), str(folder / "stubs.v")], tools.root)


# The rest of its lint is about style, which generated Verilog has none of.
HEEDED = ("IMPLICIT", "MULTIDRIVEN", "PINNOCONNECT")


def test_the_whole_array_is_wired_alike() -> None:
    """The boards' own configuration has the bus that the port has."""
    assert (PYNQ_Z1.axi_version, PYNQ_Z1.axi_data_bits) == (3, 64)
    assert (TINY.axi_version, TINY.axi_data_bits) == (3, 64)
